// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "lib/change/certificate.hpp"
#include "lib/change/change.hpp"
#include "lib/change/moves.hpp"
#include "lib/change/piece_parcels.hpp"
#include "lib/layout/config.hpp"
#include "lib/layout/model_state.hpp"

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

namespace tpx::formats {

/// What a conversion changes in addition to the layout, as written on the command line. Empty: same as the source.
struct ConversionSettings {
    std::string format, dialect, dtype;
    std::optional<std::uint64_t> shard_size;
    Config config;  ///< settings given by the user, without those of the checkpoint
};

/// A change of a checkpoint's files: what is stored where, what ranks hold, and the moves.
struct FileChange {
    std::string path;                 ///< of the checkpoint when the plan was made
    std::uint64_t source_digest = 0;  ///< its catalogue_digest
    ConversionSettings settings;
    std::vector<Tensor> tensors;  ///< canonical; dtypes are the source's
    std::vector<DType> target_dtypes;
    std::vector<Role> roles;  ///< of each tensor; may be empty if no hosts are planned
    std::vector<FileEntry> source_files;
    std::vector<FileEntry> target_files;  ///< may be empty if the places of payloads are not yet known
    std::vector<Piece> source;            ///< strides may be empty if they are not yet known
    std::vector<Piece> target;
    std::vector<Piece> held_before;  ///< what old ranks hold in memory; only tensor, rank and box are used
    std::vector<Piece> held_after;   ///< what new ranks will hold
    std::vector<PieceCell> cells;    ///< of the parcels between hosts; may be empty
    Moves moves;
    Certificate proven;  ///< the certificate's totals when the plan was made

    Side source_side() const { return {tensors, source}; }
    /// The target's tensors: `tensors` with `target_dtypes`.
    std::vector<Tensor> target_tensors() const;
};

/// A change of layout with everything that is needed to check or execute it, as stored in a file. It is made for a
/// checkpoint or from a model's description; with a model, it has hosts.
struct PlanFile {
    std::string version;   ///< of the tpx that made it
    std::string from, to;  ///< layouts; `from` may be empty for a checkpoint
    std::optional<ModelState> model;
    std::optional<FileChange> checkpoint;
    std::optional<Change> hosts;  ///< the change between hosts
};

/// Writes `content` to `path` as HDF5, in the format of tpx-plan(5); the file appears there only when it is complete.
/// Throws Error if `content` refers to something that does not exist.
void write_plan_file(const std::filesystem::path& path, const PlanFile& content);

/// Whether the file at `path` begins as a plan of any version does.
bool is_plan_file(const std::filesystem::path& path);

/// Reads what write_plan_file() wrote, without trusting the file: checks every index, box and range of bytes against
/// what it refers to, and all bytes against their CRC. Throws Error "FILE: cause", with Exit::no if bytes have changed
/// since the file was written. Does not check whether the plan is right; see check_plan_file().
PlanFile read_plan_file(const std::filesystem::path& path);

/// A fingerprint of the parts of `content` that a plan does not decide, and so cannot prove: layouts, model, hosts,
/// places of old ranks, tensors, files, pieces, settings. It is stored with the plan.
std::uint64_t request_digest(const PlanFile& content);

}  // namespace tpx::formats
