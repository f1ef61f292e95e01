// SPDX-License-Identifier: Apache-2.0
#include "formats/files/store/manifest.hpp"
#include "formats/files/store/switch_record.hpp"
#include "lib/core/error.hpp"

#include <doctest/doctest.h>

using namespace tpx;
using namespace tpx::formats;

namespace {

Manifest example() {
    return {.job = "a",
            .iteration = 7,
            .epoch = 3,
            .change = "c",
            .request = "r",
            .model = "m",
            .plan = "p",
            .layout = "tp=2",
            .format = "dcp",
            .replicas = 2,
            .hosts = {{"h0", {0, 1}, {2, 1}}, {"h1", {}}},
            .tensors = {"w", "b"},
            .files = {{"sub/x.distcp", 10, 0xfedcba9876543210, {0, 1}, {1}}, {"y", 0, 0, {0}, {}}}};
}

}  // namespace

TEST_CASE("a manifest is read back unchanged") {
    const Manifest manifest = example();
    CHECK(state_name(manifest) == "a-7-3");
    const std::string text = to_text(manifest);
    const Manifest read = parse_manifest(text, "manifest.json");
    CHECK(to_text(read) == text);
    CHECK(read.files[0].path == "sub/x.distcp");
    CHECK(read.files[0].crc == 0xfedcba9876543210);
    CHECK(read.hosts[0].ranks == std::vector<int>{0, 1});
    CHECK(read.hosts[0].devices == std::vector<int>{2, 1});
    CHECK(read.hosts[1].devices.empty());
}

TEST_CASE("every damaged byte of a manifest is found") {
    const std::string text = to_text(example());
    for (std::size_t k = 0; k + 1 < text.size(); ++k) {
        std::string damaged = text;
        damaged[k] = static_cast<char>(damaged[k] ^ 1);
        CAPTURE(k);
        CHECK_THROWS_AS(parse_manifest(damaged, "manifest.json"), Error);
    }
    CHECK_THROWS_AS(parse_manifest(text.substr(0, text.size() / 2), "manifest.json"), Error);
}

TEST_CASE("a manifest lists only files inside the state, and hosts and tensors that it has") {
    for (const char* path : {"../x", "/etc/passwd", "a/../../x", ""}) {
        Manifest manifest = example();
        manifest.files[0].path = path;
        CAPTURE(path);
        CHECK_THROWS_AS(parse_manifest(to_text(manifest), "manifest.json"), Error);
    }
    Manifest manifest = example();
    manifest.files[0].hosts = {2};
    CHECK_THROWS_AS(parse_manifest(to_text(manifest), "manifest.json"), Error);
    manifest = example();
    manifest.files[0].tensors = {2};
    CHECK_THROWS_AS(parse_manifest(to_text(manifest), "manifest.json"), Error);
}

TEST_CASE("a record of a switch is read back unchanged, and damage is found") {
    const SwitchRecord record{"c", 4, "a-7-4", SwitchRecord::SwitchPhase::commit, "/shared"};
    const std::string text = to_text(record);
    const SwitchRecord read = parse_record(text, "decision");
    CHECK(read.is_of(record));
    CHECK(read.state == "a-7-4");
    CHECK(read.phase == SwitchRecord::SwitchPhase::commit);
    CHECK(read.decision_dir == "/shared");
    std::string damaged = text;
    damaged[damaged.find("commit")] = 'x';
    CHECK_THROWS_AS(parse_record(damaged, "decision"), Error);
    CHECK_FALSE(read_record("/nonexistent/decision").has_value());
}
