// SPDX-License-Identifier: Apache-2.0
#include "formats/format_map.hpp"

#include "formats/convert/conversion.hpp"
#include "formats/dcp/driver.hpp"
#include "formats/deepspeed/driver.hpp"
#include "formats/gguf/driver.hpp"
#include "formats/hdf5/driver.hpp"
#include "formats/megatron/driver.hpp"
#include "formats/open_source.hpp"
#include "formats/registry.hpp"
#include "formats/safetensors/driver.hpp"
#include "formats/state/read_state.hpp"
#include "formats/torch/driver.hpp"
#include "lib/core/error.hpp"
#include "lib/core/file.hpp"
#include "tests/support/families.hpp"

#include <doctest/doctest.h>

#include <algorithm>
#include <map>
#include <set>

using namespace tpx;
using namespace tpx::formats;

namespace {

using test::families;

/// A checkpoint of each format, with optimizer and training state if testdata has one.
const std::map<Format, std::filesystem::path>& examples() {
    static const std::map<Format, std::filesystem::path> all{
        {&safetensors_driver, "testdata/llama-small/hf"},
        {&dcp_driver, "testdata/dcp/fsdp2-tp2"},
        {&torch_dist_driver, "testdata/llama-small/megatron-tp2pp2"},
        {&zarr_driver, "testdata/megatron/zarr"},
        {&megatron_driver, "testdata/llama-opt/legacy-tp2-dp2"},
        {&deepspeed_driver, "testdata/deepspeed/zero2-roundrobin-dp4"},
        {&universal_driver, "testdata/deepspeed/universal-part"},
        {&torch_driver, "testdata/torch/good/plain.pt"},
        {&torch_legacy_driver, "testdata/torch/good/legacy.pt"},
        {&hdf5_driver, "testdata/hdf5/good/storage.h5"},
        {&keras_driver, "testdata/keras/tiny.weights.h5"},
        {&keras_legacy_driver, "testdata/keras/tiny.h5"},
        {&gguf_driver, "testdata/gguf/numbers.gguf"},
    };
    return all;
}

std::set<Role> roles_of(const ExpressedState& expressed) {
    std::set<Role> roles;
    for (const Meaning& meaning : expressed.reading.meanings) roles.insert(meaning.role);
    return roles;
}

Conversion into(const std::filesystem::path& path, Format format, const char* layout) {
    Source source = open_source(path, families(), {});
    return convert(source, {.layout = parse_layout(layout), .format = format});
}

/// The checkpoint from which the format is written: one with an optimizer, if the format can store that of any other
/// format.
std::filesystem::path origin(Format format) {
    if (format == &keras_legacy_driver) return "testdata/keras/tiny.keras";
    if (format == &keras_driver) return examples().at(&keras_legacy_driver);
    if (format == &deepspeed_driver) return examples().at(&deepspeed_driver);
    return examples().at(format->knows_optimizer ? &megatron_driver : &safetensors_driver);
}

}  // namespace

TEST_CASE("the registry has every format once, under a unique name") {
    std::set<std::string_view> words;
    for (const Format format : drivers()) {
        CAPTURE(std::string{format->name});
        CHECK(examples().contains(format));
        CHECK(words.insert(format->name).second);
        for (const std::string_view alias : format->aliases) CHECK(words.insert(alias).second);
        CHECK(format_by_name(name(format)) == format);
        const bool opens = format->open != nullptr;
        const bool drafts = format->draft != nullptr;
        CHECK(opens);
        CHECK(drafts == (format->written != WritableFrom::nothing));
        CHECK_FALSE(format->title.empty());
        CHECK_FALSE(format->framework.empty());
        CHECK(format->endings.empty() == format->folder_description.empty());
    }
    CHECK(drivers().size() == examples().size());
}

TEST_CASE("drivers are asked in the order of their precedence") {
    const std::span<const Format> sorted = drivers_by_precedence();
    CHECK(std::ranges::is_sorted(sorted, {}, &Driver::precedence));
    CHECK(std::ranges::is_permutation(sorted, drivers()));
}

TEST_CASE("every format is read, and written as the map says") {
    for (const Format format : drivers()) {
        CAPTURE(std::string{name(format)});
        const Checkpoint checkpoint = open_source(examples().at(format), families(), {}).checkpoint;
        CHECK(checkpoint.format == format);
        CHECK_FALSE(checkpoint.catalogue.tensors.empty());
        const bool pure = format->is_one_file;  // a file of tensors
        CHECK(format->keeps_values == !read_state(pure ? open("testdata/torch/good/objects.pt") : checkpoint).empty());
        if (format->written == WritableFrom::nothing) {
            CHECK_THROWS_AS(into(examples().at(format), format, "tp=1"), Error);
            continue;
        }
        const Conversion whole = into(origin(format), format, "tp=1");
        CHECK_FALSE(whole.draft.files.empty());
        if (format->written != WritableFrom::any)
            CHECK_THROWS_AS(into(examples().at(&safetensors_driver), format, "tp=1"), Error);
        if (format->knows_optimizer) CHECK(roles_of(whole.expressed).contains(Role::exp_avg));
    }
}

TEST_CASE("output is split across ranks if the map says so") {
    for (const Format format : drivers()) {
        if (!format->is_resharded) continue;
        CAPTURE(std::string{name(format)});
        const bool pure_data = format == &deepspeed_driver;
        const Conversion cut = into(origin(format), format, pure_data ? "dp=2" : "tp=2");
        std::set<int> ranks;
        for (const Piece& piece : cut.draft.pieces) ranks.insert(piece.rank);
        CHECK(cut.content.layout.ranks() == 2);
        CHECK(cut.draft.pieces.size() > cut.draft.tensors.size());
    }
}

TEST_CASE("README.md contains the map") {
    const std::string readme = read_file("README.md");
    CHECK_MESSAGE(readme.find(format_map_markdown()) != std::string::npos, "README.md should have:\n",
                  format_map_markdown());
}
