// SPDX-License-Identifier: Apache-2.0
#include "formats/deepspeed/affine_maps.hpp"

#include "lib/core/error.hpp"

#include <algorithm>
#include <cctype>
#include <optional>
#include <utility>

namespace tpx::formats::deepspeed {
namespace {

using torch::Kind;
using torch::Value;

Shape shape_in(Value list) {
    Shape shape;
    for (const Value item : list.items()) {
        if (shape.size() == max_rank || item.as_int() < 0) throw failure("invalid shape {}", list.describe());
        shape.push_back(item.as_int());
    }
    if (checked_volume(shape) < 0) throw failure("shape {} is too large", to_string(shape));
    return shape;
}

/// The parameter that `pattern` is made for: Python's "^" + re.escape(name) + "$".
std::string escaped_name(std::string_view pattern) {
    if (!pattern.starts_with('^') || !pattern.ends_with('$') || pattern.size() < 3)
        throw failure("'{}' is not the pattern of one name", pattern);
    std::string name;
    for (std::size_t i = 1; i + 1 < pattern.size(); ++i) {
        constexpr std::string_view special = ".^$*+?{}[]()|";
        const bool escaped = pattern[i] == '\\';
        if (escaped) ++i;
        const bool of_class = escaped && std::isalnum(static_cast<unsigned char>(pattern[i])) != 0;
        if (i + 1 == pattern.size() || of_class || (!escaped && special.find(pattern[i]) != special.npos))
            throw failure("'{}' is not the pattern of one name", pattern);
        name += pattern[i];
    }
    return name;
}

/// The box of `extent` at `place`, an offset and strides, in a tensor of shape `within`; unset if the elements at these
/// strides are not a box of it.
std::optional<Box> box_at(Value place, const Shape& extent, const Shape& within) {
    const auto parts = place.items();
    if (parts.size() != 2 || extent.size() != within.size()) return std::nullopt;
    Index offset = parts[0].as_int();
    const auto strides = parts[1].items();
    if (offset < 0 || std::ssize(strides) != within.size()) return std::nullopt;
    Box box = whole(within);
    Index stride = volume(within);
    for (int k = 0; k < within.size(); ++k) {
        if (within[k] == 0) return std::nullopt;
        stride /= within[k];
        if (strides[static_cast<std::size_t>(k)].as_int() != stride) return std::nullopt;
        const Index begin = offset / stride;
        if (begin > within[k] || extent[k] > within[k] - begin) return std::nullopt;
        box[k] = {begin, begin + extent[k]};
        offset %= stride;
    }
    return box;
}

bool is_same(std::span<const SliceBlock> a, std::span<const SliceBlock> b) {
    return std::ranges::is_permutation(a, b, [](const SliceBlock& one, const SliceBlock& other) {
        return one.local == other.local && one.shift == other.shift;
    });
}

}  // namespace

AffineMaps::RankMap AffineMaps::read_rank(Value value, const Shape& whole) {
    RankMap rank{.shard = shape_in(value.at("shard_shape")), .blocks = {}, .obstacle = {}};
    for (const Value piece : value.at("pieces").items()) {
        const Shape extent = shape_in(piece.at("shape"));
        if (volume(extent) == 0) continue;
        const auto local = box_at(piece.at("dest"), extent, rank.shard);
        const auto global = box_at(piece.at("source"), extent, whole);
        if (const auto scale = piece.find("scale"); scale && !(scale->is(Kind::real) && scale->as_real() == 1))
            rank.obstacle = "scales its slices, which tpx does not support";
        if (!local || !global) {
            rank.obstacle = "has blocks that are not boxes, which tpx does not support";
            continue;
        }
        SliceBlock block{.local = *local, .shift = Tuple<Index>(extent.size())};
        for (int k = 0; k < extent.size(); ++k) block.shift[k] = (*global)[k].begin - (*local)[k].begin;
        rank.blocks.push_back(block);
    }
    return rank;
}

AffineMaps::Map AffineMaps::read(Value value) {
    Map map{.whole = shape_in(value.at("logical_shape")), .ranks = {}};
    const Value ranks = value.at("ranks");
    for (const auto& [key, rank] : ranks.entries()) {
        if (key.as_int() != std::ssize(map.ranks)) throw failure("tensor rank {} is out of order", key.as_int());
        map.ranks.push_back(read_rank(rank, map.whole));
    }
    return map;
}

AffineMaps::AffineMaps(Value map) {
    if (!map.is(Kind::dict)) throw failure("is {}", map.describe());
    if (const std::int64_t version = map.at("version").as_int(); version != 1)
        throw failure("has version {}, but only version 1 is supported", version);
    for (const auto& [key, value] : map.at("params").entries()) {
        std::string name = escaped_name(key.as_string());
        in_context([&] { return fmt::format("'{}'", name); }, [&] { maps_[name] = read(value); });
    }
}

void AffineMaps::check(const std::string& name, const Slicing& slicing, std::span<const Shape> locals) const {
    const auto found = maps_.find(name);
    if (found == maps_.end()) return;
    const Map& map = found->second;
    const auto differ = [&](std::string_view what) {
        return failure("cannot join the slices of {} tensor ranks: its affine_map {}", locals.size(), what);
    };
    if (map.ranks.size() != locals.size()) throw differ(fmt::format("describes {} tensor ranks", map.ranks.size()));
    if (map.whole != slicing.whole)
        throw differ(fmt::format("has shape {}, but the patterns {}", to_string(map.whole), to_string(slicing.whole)));
    for (std::size_t rank = 0; rank < locals.size(); ++rank) {
        const RankMap& of_rank = map.ranks[rank];
        if (!of_rank.obstacle.empty()) throw differ(of_rank.obstacle);
        const bool same =
            of_rank.shard == locals[rank] && is_same(of_rank.blocks, slicing.blocks[slicing.replicated ? 0 : rank]);
        if (!same) throw differ(fmt::format("and the patterns beside it disagree about tensor rank {}", rank));
    }
}

}  // namespace tpx::formats::deepspeed
