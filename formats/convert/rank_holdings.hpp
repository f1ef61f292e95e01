// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "formats/convert/conversion.hpp"

#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace tpx::formats {

/// What ranks hold in memory, including replicas, as pieces of canonical tensors.
struct RankHoldings {
    std::vector<Piece> pieces;
    std::string note;  ///< a warning if the split of optimizer state is an approximation; else empty
};

/// What each rank of `content.layout` holds of `content.tensors`, split as `format` does; ignores `content.pieces`.
/// `parts` and `roles` describe the tensors (see NumberedPart and roles_of_draft()); `args` are Megatron's.
RankHoldings rank_holdings(const Content& content, std::span<const std::vector<NumberedPart>> parts,
                           std::span<const Role> roles, Format format, const Config& args);

/// What each rank of layout `from` holds of `source`. DeepSpeed's ranks hold the partitions that they wrote and
/// replicas of everything else; Megatron's ranks hold parts of flat buffers (see buffer_shares()). Throws Error (usage)
/// if the source's files do not match `from`, or if the split of its tensors is unknown.
RankHoldings held_pieces(const Source& source, const Conversion& conversion, const Layout& from);

/// The pieces of the source, each held by the rank that wrote it.
std::vector<Piece> written_pieces(const Conversion& conversion);

/// What each rank of `target.layout` must hold after the change.
RankHoldings needed_pieces(const Source& source, const Conversion& conversion, const Target& target);

/// The role of each tensor of the conversion's draft.
std::vector<Role> roles_of_draft(const Source& source, const Conversion& conversion);

/// A warning if more ranks wrote a DCP checkpoint than the layout detected from its boxes has: replicas that were not
/// stored leave no boxes. Suggests a layout with that many ranks. Empty if no ranks are missing.
std::string missing_ranks_warning(const Source& source);

/// A note about tensors that a plan does not count because their files are copied unchanged. Empty if there are none.
std::string uncounted_tensors_note(const Source& source, const Conversion& conversion, const Target& target);

}  // namespace tpx::formats
