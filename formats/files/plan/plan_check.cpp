// SPDX-License-Identifier: Apache-2.0
#include "formats/files/plan/plan_check.hpp"

#include "formats/files/plan/plan_tables.hpp"

#include <fmt/format.h>

namespace tpx::formats {
namespace {

std::string fault_of_moves(const FileChange& plan, Certificate& found) {
    const std::vector<Tensor> target = plan.target_tensors();
    found = certify(plan.source_side(), {target, plan.target}, plan.moves);
    if (!found.holds()) return found.fault;
    if (found != plan.proven)
        return fmt::format("the stored totals are not those of the moves (bytes read: {} stored, {} counted)",
                           plan.proven.bytes_read, found.bytes_read);
    return {};
}

}  // namespace

CheckedPlan check_plan_file(const std::filesystem::path& path, std::optional<std::size_t> sample) {
    StoredPlan stored = read_stored_plan(path);
    CheckedPlan checked{.content = std::move(stored.content)};
    if (stored.request_digest != request_digest(checked.content)) {
        checked.fault = "the request that the plan answers was altered after the plan was made (request_digest)";
        return checked;
    }
    if (checked.content.checkpoint) {
        checked.catalogue = checked.content.checkpoint->source_digest;
        checked.fault = fault_of_moves(*checked.content.checkpoint, checked.moves.emplace());
        if (!checked.holds()) return checked;
    }
    if (stored.tables.hosts) {
        checked.hosts = check_plan(stored.tables, sample);
        checked.fault = checked.hosts->fault;
    }
    return checked;
}

}  // namespace tpx::formats
