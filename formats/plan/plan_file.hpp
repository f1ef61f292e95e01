// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "lib/plan/certificate.hpp"
#include "lib/plan/plan.hpp"

#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

namespace tpx::formats {

/// A plan with all that it takes to check it or carry it out, as a file keeps it.
struct PlanFile {
    std::string version;              ///< of the tpx that made it
    std::uint64_t source_digest = 0;  ///< catalogue_digest of the checkpoint it is for
    std::string from, to;             ///< layouts
    std::string format;               ///< of the checkpoint to write
    std::vector<Tensor> tensors;      ///< dtypes are the source's
    std::vector<DType> target_dtypes;
    std::vector<FileEntry> source_files;
    std::vector<FileEntry> target_files;  ///< may be empty when it is not known yet where payloads will go
    std::vector<Piece> source;            ///< strides may be left out where they are not known yet
    std::vector<Piece> target;
    Plan plan;
    Certificate proven;  ///< the certificate's totals when the plan was made

    Side source_side() const { return {tensors, source}; }
    /// The target's tensors: `tensors` with `target_dtypes`.
    std::vector<Tensor> target_tensors() const;
};

/// Writes `content` to `path` as HDF5; it appears under this name when it is whole. Throws Error when `content` refers
/// to something that is not there. In Python:
///
///     import h5py
///     with h5py.File("change.plan") as plan:
///         ranks = plan["source/rank"][:], plan["target/rank"][:]
///         for source, target, box in zip(plan["moves/source"], plan["moves/target"], plan["moves/box"]):
///             print(ranks[0][source], "->", ranks[1][target], box.tolist())
void write_plan_file(const std::filesystem::path& path, const PlanFile& content);

/// Reads what write_plan_file wrote, whoever made it: every index, box and range of bytes is checked against what it
/// refers to, and all bytes against their CRC. Throws Error "FILE: cause", with Exit::no when bytes have changed since
/// it was written. Coverage is left to check_plan_file.
PlanFile read_plan_file(const std::filesystem::path& path);

/// Reads the file at `path` and proves its plan anew. Throws Error (no) when a byte has changed, or when the plan does
/// not cover the target exactly once or moves other totals than the file says. Shares no code with the planner but the
/// reading of the file.
Certificate check_plan_file(const std::filesystem::path& path);

}  // namespace tpx::formats
