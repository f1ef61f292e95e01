// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "formats/convert/conversion.hpp"

#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace tpx::formats {

/// What ranks hold in memory, replicas included, as pieces of canonical tensors.
struct RankHoldings {
    std::vector<Piece> pieces;
    std::string note;  ///< a warning if the split of optimizer state is an approximation; else empty
};

/// What each rank of `content.layout` holds of `content.tensors`, stored as `format` does; of its pieces nothing is
/// used. `parts` and `roles` are those of the tensors, see NumberedPart and roles_of_draft(), `args` those of Megatron.
RankHoldings rank_holdings(const Content& content, std::span<const std::vector<NumberedPart>> parts,
                           std::span<const Role> roles, Format format, const Config& args);

/// What each rank of layout `from` holds of `source`. DeepSpeed's ranks hold the partitions that they wrote, and copies
/// of all else; Megatron's ranks hold parts of flat buffers, see buffer_shares(). Throws Error (usage) if the
/// source's files do not match `from`, or if it is unknown how its tensors are split.
RankHoldings held_pieces(const Source& source, const Conversion& conversion, const Layout& from);

/// The pieces as written: each is held by the rank that wrote it.
std::vector<Piece> written_pieces(const Conversion& conversion);

/// What each rank of `target.layout` must hold after the change.
RankHoldings needed_pieces(const Source& source, const Conversion& conversion, const Target& target);

/// The role of each tensor of the conversion's draft.
std::vector<Role> roles_of_draft(const Source& source, const Conversion& conversion);

/// How many ranks wrote files of a DCP checkpoint, and which layout may have them, where that is more ranks than the
/// layout that its boxes show: replicas of which only one was stored leave no box. Empty where no rank is missing.
std::string missing_ranks(const Source& source);

/// What a plan does not count: tensors whose files are copied as they are. Empty if there are none.
std::string uncounted_tensors(const Source& source, const Conversion& conversion, const Target& target);

}  // namespace tpx::formats
