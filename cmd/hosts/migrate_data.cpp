// SPDX-License-Identifier: Apache-2.0
#include "cmd/hosts/migrate_data.hpp"

#include "cmd/hosts/migrate_assignment.hpp"
#include "formats/driver.hpp"
#include "formats/files/data/rank_shares.hpp"
#include "lib/core/error.hpp"
#include "lib/core/path.hpp"
#include "lib/layout/virtual_nodes.hpp"

namespace tpx::cli {
namespace {

/// Sets the same number of virtual nodes in the layout and in the position; one of the two may omit the number.
void share_virtual_nodes(Layout& layout, formats::DataPosition& position) {
    if (layout.vn == 0) layout.vn = position.virtual_nodes;
    if (position.virtual_nodes == 0) position.virtual_nodes = layout.vn;
    if (layout.vn == 0)
        throw usage_error(
            "the number of virtual nodes is unknown; add virtual_nodes to the data file, or vn=N to --to");
    if (layout.vn != position.virtual_nodes)
        throw usage_error("layout: vn={}, but the data position has {} virtual nodes", layout.vn,
                          position.virtual_nodes);
}

}  // namespace

void add_data(Migration& job, const MigrateRequest& options) {
    Layout& layout = job.target.layout;
    job.batch = static_cast<int>(options.plan.batch.value_or(0));
    job.position = options.position;
    if (!job.position && path_is_directory(job.origin.folder))
        job.position = formats::read_data_position(job.origin.folder);
    if (options.assigned) {
        layout.vn_parts.clear();
        if (layout.vn == 0 && (!job.position || job.position->virtual_nodes == 0))
            layout.vn = virtual_nodes_for(*options.assigned);
    }
    if (job.position) {
        share_virtual_nodes(layout, *job.position);
        if (job.batch > 0 && job.batch != job.position->batch)
            throw usage_error("--batch {}: the data position has global batches of {}", job.batch, job.position->batch);
        job.batch = job.position->batch;
    }
    if (options.assigned) {
        if (job.batch == 0) job.batch = options.assigned->batch;
        check_assignment(job, *options.assigned);
    }
    if (job.batch > 0 && layout.vn == 0) throw usage_error("--batch: requires virtual nodes; add vn=N to --to");
    check_virtual_nodes(layout, job.batch);
}

void add_data_file(Migration& job) {
    if (!job.target.format->allows_other_files) return;
    Draft& draft = job.conversion.draft;
    std::string text = formats::data_position_text(*job.position, job.target.layout);
    const auto file = static_cast<std::uint32_t>(draft.files.size());
    draft.files.push_back({formats::data_position_name, text.size()});
    draft.fixed.push_back({file, 0, std::move(text)});
}

}  // namespace tpx::cli
