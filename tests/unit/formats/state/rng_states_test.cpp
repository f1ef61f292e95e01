// SPDX-License-Identifier: Apache-2.0
#include "formats/state/rng_states.hpp"

#include "formats/checkpoint.hpp"
#include "lib/core/file.hpp"
#include "tests/support/memory_file.hpp"

#include <doctest/doctest.h>
#include <fcntl.h>

#include <cstring>
#include <map>
#include <set>

using namespace tpx;
using namespace tpx::formats;
using namespace tpx::formats::megatron;
using test::MemoryFile;
using torch::Archive;
using torch::Document;
using torch::Value;

namespace {

const char* const checkpoint_path = "testdata/llama-small/megatron-tp2pp2";

/// The states for `place`, written as an archive and read back: the generators of CUDA by name.
std::map<std::string, std::string> generators(const RngStates& states, const RngPlace& place, const Layout& layout) {
    Document document;
    torch::Contents contents;
    const Value list = states.state(document, contents, place, layout);
    const MemoryFile file{torch::frame_archive(list, {}, contents).runs.at(0)};
    const Archive archive = Archive::open(file.range());
    std::map<std::string, std::string> found;
    for (const torch::NamedTensor& named : archive.tensors()) found[named.name] = archive.elements(named.tensor);
    return found;
}

std::uint64_t seed_of(const std::string& state) {
    std::uint64_t seed = 0;
    std::memcpy(&seed, state.data(), sizeof seed);
    return seed;
}

constexpr const char* model_parallel = "0.rng_tracker_states.model-parallel-rng";

}  // namespace

TEST_CASE("ranks that exist in the source keep its states, byte for byte") {
    const Checkpoint checkpoint = open(checkpoint_path);
    const RngStates states{checkpoint};
    const Layout layout{.tp = 2, .pp = 2};
    REQUIRE(!states.empty());
    CHECK(states.has_all(layout));
    CHECK(states.has_all({.tp = 1, .pp = 2}));
    CHECK_FALSE(states.has_all({.tp = 4, .pp = 2}));
    CHECK(rng_object_name({.pp = 1, .tp = 0}, layout) == "rng_state/shard_1.0_2.2");
    CHECK(rng_object_name({.pp = 0, .tp = 0, .ep = 1, .replica = 1}, {.dp = 2, .ep = 2}) ==
          "rng_state/shard_0.0.1_1.1.2");
    for (const Object& object : checkpoint.catalogue.objects) {
        if (object.name != "rng_state/shard_1.0_2.2") continue;
        const std::filesystem::path path = checkpoint.catalogue.path(object.file);
        const Fd fd = open_file(path, O_RDONLY);
        const Archive stored = Archive::open({&fd, path, object.offset, object.length});
        const auto found = generators(states, {.pp = 1, .tp = 0}, layout);
        CHECK(found.size() == stored.tensors().size());
        for (const torch::NamedTensor& named : stored.tensors()) {
            // The object is a list of one list of states.
            CHECK(found.at(named.name.substr(2)) == stored.elements(named.tensor));
        }
    }
}

TEST_CASE("states become the objects of torch_dist") {
    const Checkpoint checkpoint = open(checkpoint_path);
    std::map<std::string, std::map<std::string, std::string>> stored, made;
    const auto tensors_of = [](const Archive& archive) {
        std::map<std::string, std::string> found;
        for (const torch::NamedTensor& named : archive.tensors()) found[named.name] = archive.elements(named.tensor);
        return found;
    };
    for (const Object& object : checkpoint.catalogue.objects) {
        if (!object.name.starts_with("rng_state/")) continue;
        const std::filesystem::path path = checkpoint.catalogue.path(object.file);
        const Fd fd = open_file(path, O_RDONLY);
        stored[object.name] = tensors_of(Archive::open({&fd, path, object.offset, object.length}));
    }
    for (const RngObject& object : rng_objects_of(checkpoint)) {
        const MemoryFile file{object.archive};
        made[object.name] = tensors_of(Archive::open(file.range()));
    }
    CHECK(made.size() == 4);
    CHECK(made == stored);
    CHECK(rng_objects_of(open("testdata/llama-small/hf")).empty());
}

TEST_CASE("ranks that do not exist in the source get separate seeds") {
    const RngStates states{open(checkpoint_path)};
    const Layout layout{.tp = 4, .pp = 4};
    const Layout old{.tp = 2, .pp = 2};
    const std::uint64_t first = seed_of(generators(states, {}, old).at(model_parallel));
    std::set<std::uint64_t> seeds;
    for (const RngPlace& place : rng_places(layout)) {
        const auto own = generators(states, place, layout);
        const std::uint64_t seed = seed_of(own.at(model_parallel));
        const RngPlace source{.pp = place.pp % 2, .tp = place.tp % 2};
        const std::uint64_t from = seed_of(generators(states, source, old).at(model_parallel));
        CHECK(seed == from + static_cast<std::uint64_t>(100 * (place.pp - source.pp) + place.tp - source.tp));
        CHECK(own.at(model_parallel).substr(8) == generators(states, source, old).at(model_parallel).substr(8));
        seeds.insert(seed);
    }
    CHECK(seeds.contains(first));
    CHECK(seeds.size() == 16);
}

TEST_CASE("positions of ranks include replicas and experts") {
    const auto places = rng_places({.tp = 2, .pp = 2, .dp = 4, .ep = 2});
    REQUIRE(places.size() == 16);
    std::set<RngPlace> all{places.begin(), places.end()};
    CHECK(all.size() == 16);
    for (const RngPlace& place : places) {
        CHECK(place.replica < 4);
        CHECK(place.ep < 2);
    }
    CHECK(rng_replicas({.dp = 2, .cp = 3}) == 6);
}
