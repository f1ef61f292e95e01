// SPDX-License-Identifier: Apache-2.0
#include "formats/convert/stored_model.hpp"

#include "formats/deepspeed/driver.hpp"
#include "formats/megatron/driver.hpp"
#include "formats/open_source.hpp"
#include "lib/change/model_parcels.hpp"
#include "lib/core/error.hpp"
#include "tests/support/checkpoints.hpp"
#include "tests/support/families.hpp"
#include "tests/support/sanitized.hpp"
#include "tests/unit/formats/convert/parcel_amounts.hpp"

#include <doctest/doctest.h>

#include <algorithm>
#include <map>

namespace tpx::formats {
namespace {

using test::Amounts;
using test::amounts_of;
using test::difference;

/// What describes the model of a checkpoint: its configuration alone, and which roles it has.
ModelDescription description_of(const Source& source) {
    const std::string_view words = source.reading.source();
    std::map<Role, DType> dtypes;
    for (std::size_t t = 0; t < source.reading.meanings.size(); ++t) {
        const Meaning& meaning = source.reading.meanings[t];
        if (meaning.kind == Meaning::Kind::parameter && meaning.role != Role::step)
            dtypes.emplace(meaning.role, source.checkpoint.catalogue.tensors[t].dtype);
    }
    std::vector<StateRole> roles;
    for (const auto& [role, dtype] : dtypes) roles.push_back({role, dtype});
    const Family& family = *source.reading.family;
    return {model_of(family, words, source.reading.config, roles), &family, words, source.reading.config};
}

std::vector<Layout> layouts_for(const ModelDescription& description) {
    std::vector<Layout> layouts;
    for (const char* text : {"tp=1", "dp=2,zero=1", "dp=3,zero=1", "dp=7,zero=1", "tp=2,dp=2,zero=1", "tp=2",
                             "tp=2,dp=3,zero=1", "pp=2,dp=2,zero=1", "cp=2,dp=2,zero=1", "tp=2,pp=2,dp=4,zero=1"})
        layouts.push_back(parse_layout(text));
    if (std::ranges::any_of(description.model.classes, [](const TensorClass& kind) { return kind.experts > 0; })) {
        for (const char* text : {"ep=2,dp=2,zero=1", "ep=2,dp=4,zero=1", "tp=2,ep=2,etp=1,dp=2,zero=1"})
            layouts.push_back(parse_layout(text));
    }
    return layouts;
}

/// Compares both expansions; returns whether the change is possible.
bool compare(Source& source, const ModelDescription& description, const Layout& from, const Layout& to) {
    CAPTURE(to_string(from));
    CAPTURE(to_string(to));
    Amounts pieces;
    try {
        const Target target{.layout = to, .format = source.checkpoint.format};
        pieces = amounts_of(test::parcels_by_piece(source, target, from), false);
    } catch (const Error& error) {
        CHECK(error.exit() == Exit::usage);
        return false;
    }
    const StoredModelChange change = stored_model_change(description, source.checkpoint.format, from, to);
    CHECK(change.note == "");
    const Amounts described = amounts_of(change.parcels, false);
    CHECK(difference(pieces, described) == "");
    REQUIRE(difference(described, pieces) == "");
    return true;
}

/// Compares the changes from all layouts with the checkpoint's tp, which determines its padding, to all layouts;
/// returns how many are possible.
int compare_all(const std::filesystem::path& folder) {
    CAPTURE(folder.string());
    Source source = open_source(folder, test::families(), {});
    REQUIRE(source.layout);
    const ModelDescription description = description_of(source);
    int compared = 0;
    for (const Layout& from : layouts_for(description)) {
        for (const Layout& to : layouts_for(description))
            compared += from.tp == source.layout->tp && compare(source, description, from, to);
    }
    return compared;
}

}  // namespace

TEST_CASE("a model description and a Megatron checkpoint of the model give the same parcels of flat buffers") {
    CHECK(compare_all("testdata/llama-opt/legacy-tp2-dp2") > 20);
    const std::filesystem::path folder = test::fixtures();
    if (folder.empty() || test::is_sanitized) return;
    for (const std::string name :
         {"llama-opt-dist-tp1pp1dp4-dp_reshardable", "llama-opt-dist-tp1pp1dp4-dp_reshardable-buckets",
          "gpt2-x-dist-tp1pp2dp2-dpr-b5000", "moe-x-dist-tp1pp1ep2dp2", "moe-x-legacy-tp1pp1ep2dp2-distopt"})
        CHECK(compare_all(folder / "megatron" / name / "ckpt") > 20);
}

TEST_CASE("a model description and a DeepSpeed checkpoint of the model give the same parcels of partitions") {
    const Families& families = test::families();
    const auto state_of = [](const Parcels& parcels) {
        Amounts amounts = amounts_of(parcels, false);
        std::erase_if(amounts, [](const auto& amount) { return std::get<0>(amount.first) == Role::weight; });
        return amounts;
    };
    const Layout from = parse_layout("dp=2,zero=2");
    for (int dp = 1; dp <= 8; ++dp) {
        for (int zero = 1; zero <= 3; ++zero) {
            Source source = open_source("testdata/deepspeed/llama-zero2-dp2", families, {});
            const Layout to = parse_layout(fmt::format("dp={},zero={}", dp, zero));
            CAPTURE(to_string(to));
            const Target target{.layout = to, .format = &deepspeed_driver};
            const Amounts pieces = state_of(test::parcels_by_piece(source, target, from));
            const StoredModelChange change = stored_model_change(description_of(source), &deepspeed_driver, from, to);
            const Amounts described = state_of(change.parcels);
            REQUIRE(!pieces.empty());
            CHECK(difference(pieces, described) == "");
            CHECK(difference(described, pieces) == "");
        }
    }
}

TEST_CASE("each of DeepSpeed's partitions of weights is held by one rank with zero=3, by all ranks below") {
    const ModelDescription description = read_model_description("llama3-8b", test::families(), {}, "train");
    for (const auto& [text, copies] : {std::pair{"dp=5,zero=3", 1U}, {"dp=5,zero=2", 5U}, {"dp=5", 5U}}) {
        const StoredModelChange change =
            stored_model_change(description, &deepspeed_driver, parse_layout("dp=3,zero=1"), parse_layout(text));
        std::uint64_t weights = 0;
        for (const Parcel& parcel : change.parcels.parcels) {
            if (change.parcels.roles[parcel.role] == Role::weight)
                weights += parcel.bytes * change.parcels.needers[parcel.needers].size();
        }
        CHECK(weights == copies * 2 * static_cast<std::uint64_t>(parameters(description.model)));
    }
    for (const char* text : {"tp=2", "pp=2", "ep=2", "fsdp=2"})
        CHECK_THROWS_AS(stored_model_change(description, &deepspeed_driver, parse_layout("dp=2"), parse_layout(text)),
                        Error);
}

TEST_CASE("flat buffers split optimizer state differently from splits along the first axis") {
    const Families& families = test::families();
    const ModelDescription description = read_model_description("llama3-8b", families, {}, "train");
    const Layout from = parse_layout("tp=2,dp=2,zero=1");
    const Layout to = parse_layout("tp=2,dp=3,zero=1");
    const StoredModelChange change = stored_model_change(description, &torch_dist_driver, from, to);
    const Parcels even = model_parcels(description.model, from, to);
    const auto bytes = [](const Parcels& parcels) {
        std::uint64_t sum = 0;
        for (const Parcel& parcel : parcels.parcels)
            sum +=
                parcels.roles[parcel.role] == Role::weight ? 0 : parcel.bytes * parcels.needers[parcel.needers].size();
        return sum;
    };
    CHECK(bytes(change.parcels) == bytes(even));  // the vocabulary of Llama 3 needs no padding for these layouts
    CHECK(amounts_of(change.parcels, true) != amounts_of(even, true));
    for (const char* text : {"dp=2,zero=2", "fsdp=2", "dp=2,vn=4"})
        CHECK_THROWS_AS(stored_model_change(description, &torch_dist_driver, from, parse_layout(text)), Error);
}

}  // namespace tpx::formats
