// SPDX-License-Identifier: Apache-2.0
#include "cmd/inspect/inspect_virtual_nodes.hpp"

#include "formats/files/data/rank_shares.hpp"
#include "lib/core/error.hpp"
#include "lib/core/path.hpp"
#include "lib/layout/virtual_nodes.hpp"

#include <algorithm>
#include <optional>

namespace tpx::cli {
namespace {

namespace fs = std::filesystem;

/// The number of virtual nodes whose state is among the tensors; 0: none.
int count_in_tensors(const formats::Source& source) {
    int count = 0;
    for (const Meaning& meaning : source.reading.meanings) count = std::max(count, meaning.virtual_node + 1);
    return count;
}

/// The virtual nodes of the data position in `folder`, for a layout with `dp` coordinates; nothing without a position.
std::optional<formats::StoredNodes> stored_nodes(formats::Source& source, const fs::path& folder, int dp) {
    try {
        if (path_is_directory(folder)) return formats::read_stored_nodes(folder, dp);
    } catch (const Error& error) {
        source.checkpoint.notes.emplace_back(error.what());
    }
    return std::nullopt;
}

}  // namespace

void add_virtual_nodes(formats::Source& source, const fs::path& checkpoint) {
    if (!source.layout) return;
    Layout layout = *source.layout;
    if (const auto stored = stored_nodes(source, checkpoint, layout.dp)) {
        layout.vn = stored->count;
        layout.vn_parts = stored->parts;
    } else {
        layout.vn = count_in_tensors(source);
    }
    if (layout.vn == 0) return;
    try {
        check_virtual_nodes(layout, 0);
        source.layout = layout;
    } catch (const Error&) {  // the layout has fewer ranks than the job, such as one rank for a single file
    }
}

}  // namespace tpx::cli
