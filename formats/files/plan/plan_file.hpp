// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "lib/change/certificate.hpp"
#include "lib/change/change.hpp"
#include "lib/change/moves.hpp"
#include "lib/change/piece_parcels.hpp"
#include "lib/layout/config.hpp"
#include "lib/layout/model.hpp"

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

namespace tpx::formats {

/// What a conversion was asked for beside the layout, in the words of the command line. Empty: as the source has it.
struct ConversionSettings {
    std::string format, dialect, dtype;
    std::optional<std::uint64_t> shard_size;
    Config config;  ///< given beside the checkpoint; its own is not repeated here
};

/// A change as the files of a checkpoint see it: what is stored where, what ranks hold of it, and the moves.
struct FileChange {
    std::string path;                 ///< of the checkpoint, as it was called when the plan was made
    std::uint64_t source_digest = 0;  ///< its catalogue_digest
    ConversionSettings settings;
    std::vector<Tensor> tensors;  ///< canonical; dtypes are the source's
    std::vector<DType> target_dtypes;
    std::vector<Role> roles;  ///< of each tensor; may be empty where no hosts are planned
    std::vector<FileEntry> source_files;
    std::vector<FileEntry> target_files;  ///< may be empty when it is not known yet where payloads will go
    std::vector<Piece> source;            ///< strides may be left out where they are not known yet
    std::vector<Piece> target;
    std::vector<Piece> held_before;  ///< what old ranks hold in memory; only tensor, rank and box count
    std::vector<Piece> held_after;   ///< what new ranks will hold
    std::vector<PieceCell> cells;    ///< of the parcels between hosts; may be empty
    Moves moves;
    Certificate proven;  ///< the certificate's totals when the plan was made

    Side source_side() const { return {tensors, source}; }
    /// The target's tensors: `tensors` with `target_dtypes`.
    std::vector<Tensor> target_tensors() const;
};

/// A change of layout with all that it takes to check it or carry it out, as a file keeps it. Made for a checkpoint or
/// from a model's description; the latter has hosts.
struct PlanFile {
    std::string version;   ///< of the tpx that made it
    std::string from, to;  ///< layouts; `from` may be empty for a checkpoint
    std::optional<ModelState> model;
    std::optional<FileChange> checkpoint;
    std::optional<Change> hosts;  ///< the change as hosts see it
};

/// Writes `content` to `path` as HDF5, in the format of tpx-plan(5); it appears under this name when it is whole.
/// Throws Error when `content` refers to something that is not there.
void write_plan_file(const std::filesystem::path& path, const PlanFile& content);

/// Whether the file at `path` begins as a plan of any version does.
bool is_plan_file(const std::filesystem::path& path);

/// Reads what write_plan_file wrote, whoever made it: every index, box and range of bytes is checked against what it
/// refers to, and all bytes against their CRC. Throws Error "FILE: cause", with Exit::no when bytes have changed since
/// it was written. Whether the plan is right is left to check_plan_file.
PlanFile read_plan_file(const std::filesystem::path& path);

/// A fingerprint of all in `content` that a plan does not decide and so cannot prove: layouts, model, hosts, where old
/// ranks are, tensors, files, pieces, settings. It is stored with the plan.
std::uint64_t request_digest(const PlanFile& content);

}  // namespace tpx::formats
