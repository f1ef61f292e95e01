// SPDX-License-Identifier: Apache-2.0
#include "formats/format_map.hpp"

#include "formats/conversion.hpp"
#include "formats/state/state.hpp"
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

/// A checkpoint of each format, with optimizer and state where there is one in testdata.
const std::map<Format, std::filesystem::path>& examples() {
    static const std::map<Format, std::filesystem::path> all{
        {Format::safetensors, "testdata/llama-small/hf"},
        {Format::dcp, "testdata/dcp/fsdp2-tp2"},
        {Format::torch_dist, "testdata/llama-small/megatron-tp2pp2"},
        {Format::megatron, "testdata/llama-opt/legacy-tp2-dp2"},
        {Format::deepspeed, "testdata/deepspeed/zero2-roundrobin-dp4"},
        {Format::universal, "testdata/deepspeed/universal-part"},
        {Format::torch, "testdata/torch/good/plain.pt"},
        {Format::torch_legacy, "testdata/torch/good/legacy.pt"},
        {Format::hdf5, "testdata/hdf5/good/storage.h5"},
        {Format::keras, "testdata/keras/tiny.weights.h5"},
        {Format::keras_legacy, "testdata/keras/tiny.h5"},
        {Format::gguf, "testdata/gguf/numbers.gguf"},
    };
    return all;
}

std::set<Role> roles_of(const Expressed& expressed) {
    std::set<Role> roles;
    for (const Meaning& meaning : expressed.reading.meanings) roles.insert(meaning.role);
    return roles;
}

Conversion into(const std::filesystem::path& path, Format format, const char* layout) {
    Source source = open_source(path, families(), {});
    return convert(source, {.layout = parse_layout(layout), .format = format});
}

/// From where the format is written: what has an optimizer, where it says that it takes one from any.
std::filesystem::path origin(const FormatEntry& entry) {
    if (entry.format == Format::keras_legacy) return "testdata/keras/tiny.keras";
    if (entry.written == FormatEntry::Written::from_keras) return examples().at(Format::keras_legacy);
    if (entry.written == FormatEntry::Written::from_deepspeed) return examples().at(Format::deepspeed);
    return examples().at(entry.optimizer ? Format::megatron : Format::safetensors);
}

}  // namespace

TEST_CASE("the map has every format once") {
    std::set<Format> formats;
    for (const FormatEntry& entry : format_map()) CHECK(formats.insert(entry.format).second);
    CHECK(formats.size() == examples().size());
    for (int k = 0;; ++k) {
        const auto format = static_cast<Format>(k);
        if (!formats.contains(format)) {
            CHECK(k == static_cast<int>(formats.size()));
            break;
        }
        CHECK(format_by_name(name(format)) == format);
    }
}

TEST_CASE("every format is read, and written as the map says") {
    for (const FormatEntry& entry : format_map()) {
        CAPTURE(std::string{name(entry.format)});
        const Checkpoint checkpoint = open_source(examples().at(entry.format), families(), {}).checkpoint;
        CHECK(checkpoint.format == entry.format);
        CHECK_FALSE(checkpoint.catalogue.tensors.empty());
        const bool pure = is_torch(entry.format);  // a file of tensors
        CHECK(entry.state == !read_state(pure ? open("testdata/torch/good/objects.pt") : checkpoint).empty());
        if (entry.written == FormatEntry::Written::no) {
            CHECK_THROWS_AS(into(examples().at(entry.format), entry.format, "tp=1"), Error);
            continue;
        }
        const Conversion whole = into(origin(entry), entry.format, "tp=1");
        CHECK_FALSE(whole.draft.files.empty());
        if (entry.written != FormatEntry::Written::from_any)
            CHECK_THROWS_AS(into(examples().at(Format::safetensors), entry.format, "tp=1"), Error);
        if (entry.optimizer) CHECK(roles_of(whole.expressed).contains(Role::exp_avg));
    }
}

TEST_CASE("output is cut over ranks where the map says so") {
    for (const FormatEntry& entry : format_map()) {
        if (!entry.resharded) continue;
        CAPTURE(std::string{name(entry.format)});
        const bool pure_data = entry.format == Format::deepspeed;
        const Conversion cut = into(origin(entry), entry.format, pure_data ? "dp=2" : "tp=2");
        std::set<int> ranks;
        for (const Piece& piece : cut.draft.pieces) ranks.insert(piece.rank);
        CHECK(cut.content.layout.ranks() == 2);
        CHECK(cut.draft.pieces.size() > cut.draft.tensors.size());
    }
}

TEST_CASE("README.md has the map") {
    const std::string readme = read_file("README.md");
    CHECK_MESSAGE(readme.find(format_map_markdown()) != std::string::npos, "README.md should have:\n",
                  format_map_markdown());
}
