// SPDX-License-Identifier: Apache-2.0
#include "formats/settings/config_file.hpp"

#include <doctest/doctest.h>

#include <cstdint>
#include <string>

namespace {

using namespace tpx;
using namespace tpx::formats;

TEST_CASE("settings from a config.json: scalars down to the third level, lists of numbers or words, and list lengths") {
    const Config config = parse_config_json(
        R"({"hidden_size": 8, "layer_types": ["mamba", "mlp"], "rope": {"theta": 0.5, "full": {"theta": 2, "deep": {"x": 1}}},)"
        R"( "limits": [0.5, 1.5]})");
    CHECK(config.at("hidden_size") == ConfigValue{std::int64_t{8}});
    CHECK(config.at("layer_types") == ConfigValue{std::string{"mamba,mlp"}});
    CHECK(config.at("layer_types.count") == ConfigValue{std::int64_t{2}});
    CHECK(config.at("rope.theta") == ConfigValue{0.5});
    CHECK(config.at("rope.full.theta") == ConfigValue{std::int64_t{2}});
    CHECK(!config.contains("rope.full.deep.x"));
    CHECK(!config.contains("limits"));
    CHECK(config.at("limits.count") == ConfigValue{std::int64_t{2}});
    CHECK(config.size() == 6);
}

}  // namespace
