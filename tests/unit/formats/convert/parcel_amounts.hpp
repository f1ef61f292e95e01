// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "formats/convert/rank_holdings.hpp"
#include "lib/change/piece_parcels.hpp"

#include <fmt/ranges.h>

#include <algorithm>
#include <cstdint>
#include <map>
#include <span>
#include <string>
#include <tuple>
#include <vector>

namespace tpx::test {

using Ranks = std::vector<std::int32_t>;
/// Bytes by (role, holders, needers, recut).
using Amounts = std::map<std::tuple<Role, Ranks, Ranks, bool>, std::uint64_t>;

/// With `ignore_recut`, all count as not recut. Omits everything except parameters and their state.
inline Amounts amounts_of(const Parcels& parcels, bool ignore_recut) {
    const auto list = [](std::span<const std::int32_t> ranks) { return Ranks{ranks.begin(), ranks.end()}; };
    Amounts amounts;
    for (const Parcel& parcel : parcels.parcels) {
        const Role role = parcels.roles[parcel.role];
        if (role == Role::extra || role == Role::step) continue;
        amounts[{role, list(parcels.holders[parcel.holders]), list(parcels.needers[parcel.needers]),
                 parcel.recut && !ignore_recut}] += parcel.bytes;
    }
    return amounts;
}

/// The amounts of `a` that `b` lacks or that differ in `b`, for messages.
inline std::string difference(const Amounts& a, const Amounts& b) {
    std::string text;
    for (const auto& [key, bytes] : a) {
        const auto& [role, holders, needers, recut] = key;
        if (const auto other = b.find(key); other != b.end() && other->second == bytes) continue;
        text += fmt::format("{} {{{}}} -> {{{}}}{}: {} B\n", role, fmt::join(holders, ","), fmt::join(needers, ","),
                            recut ? " recut" : "", bytes);
    }
    return text;
}

/// The parcels of `plan CKPT`: expanded piece by piece, from layout `from` to that of `target`.
inline Parcels parcels_by_piece(formats::Source& source, const formats::Target& target, const Layout& from) {
    const formats::Conversion conversion = convert(source, target);
    const std::vector<Piece> held = held_pieces(source, conversion, from).pieces;
    const std::vector<Piece> needed = needed_pieces(source, conversion, target).pieces;
    std::vector<Role> names;
    std::vector<std::uint32_t> numbers(conversion.target_tensors.size());
    const std::vector<Role> roles = roles_of_draft(source, conversion);
    for (std::size_t t = 0; t < roles.size(); ++t) {
        auto found = std::ranges::find(names, roles[t]);
        if (found == names.end()) found = names.insert(names.end(), roles[t]);
        for (const formats::NumberedPart& part : conversion.target_parts[t])
            numbers[part.number] = static_cast<std::uint32_t>(found - names.begin());
    }
    return parcels_of({conversion.source_tensors, held}, {conversion.target_tensors, needed}, numbers, names,
                      from.ranks(), target.layout.ranks());
}

}  // namespace tpx::test
