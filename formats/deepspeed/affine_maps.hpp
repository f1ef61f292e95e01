// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "formats/deepspeed/blocks.hpp"
#include "formats/encodings/torch/value.hpp"

#include <functional>
#include <map>
#include <span>
#include <string>
#include <vector>

namespace tpx::formats::deepspeed {

/// The affine_map that AutoTP of DeepSpeed 0.19 and later adds to universal_checkpoint_info: for each parameter, the
/// blocks of the whole that each tensor rank has. The patterns beside it describe the same slices; tpx joins slices by
/// patterns and checks the result against the map.
class AffineMaps {
public:
    AffineMaps() = default;
    /// Throws Error for another version than 1, and for keys that are not names of parameters.
    explicit AffineMaps(torch::Value map);

    bool contains(const std::string& name) const { return maps_.contains(name); }

    /// Throws Error if the map of parameter `name` differs from `slicing` of slices of shapes `locals`; does nothing
    /// without a map of it.
    void check(const std::string& name, const Slicing& slicing, std::span<const Shape> locals) const;

private:
    struct RankMap {
        Shape shard;
        std::vector<SliceBlock> blocks;
        std::string obstacle;  ///< why the blocks cannot be copied as they are; empty if they can
    };
    struct Map {
        Shape whole;
        std::vector<RankMap> ranks;
    };
    static Map read(torch::Value value);
    static RankMap read_rank(torch::Value value, const Shape& whole);

    std::map<std::string, Map, std::less<>> maps_;  ///< by parameter
};

}  // namespace tpx::formats::deepspeed
