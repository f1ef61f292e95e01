// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "cmd/cli/options.hpp"
#include "cmd/jobs/open_checkpoint.hpp"
#include "formats/convert/conversion.hpp"
#include "formats/files/digests_file.hpp"
#include "lib/change/hosts.hpp"
#include "lib/change/moves.hpp"
#include "lib/core/file.hpp"

#include <optional>
#include <vector>

namespace tpx::cli {

struct ReshardOptions : ReadOptions, TargetOptions, LimitOptions {
    ReshardOptions() { default_threads = 4; }  // while some threads wait for the disk, others copy

    std::string checkpoint;
    std::string output;
    std::string plan;
    std::string hardware;
    std::string drop;
    bool masters = false;
    std::string dtype;
    std::optional<std::uint64_t> shard_size;
    bool dry_run = false;
    bool force = false;
    bool verify = false;
    bool allow_missing = false;
    std::string merge_adapter;
    bool restart = false;
    bool clean = false;
    bool stages = false;
    std::string trace;
    std::string hold;  ///< seconds for which OUT is also held in memory
    std::string hold_name;
    std::string hold_device;
    std::string held;  ///< ranks to hold in memory, "all" or "0-3,8", as tpx hold does; empty: OUT is written
};

/// What `tpx reshard` will do: the source, the target and the moves between their files.
struct ReshardJob {
    OpenedCheckpoint opened;
    formats::Target target;
    formats::Conversion conversion;
    Moves moves;
    std::uint64_t request = 0;                         ///< digest of the source, the output and the moves
    Fd zeros;                                          ///< replaces missing pieces, with --allow-missing
    std::vector<Host> rates;                           ///< of hosts, from --hardware
    std::optional<formats::RecordedDigests> recorded;  ///< of the source, if verify --write recorded any
    std::optional<OpenedCheckpoint> whole;             ///< the source as stored, if it has digests and `opened` differs
    Catalogue recorded_files;                          ///< the source's files that have digests
};

/// The job that `options` ask for, or that their plan file describes. Nothing is written. Throws Error "CKPT: cause"
/// if the source cannot be read or converted; its exit status is 2 if the options are invalid.
ReshardJob prepare_reshard(const ReshardOptions& options);

/// The ranks of `layout` that `text` names, "all" or a list such as "0-3,8", sorted. Throws Error (usage) for other
/// text.
std::vector<int> held_ranks(const std::string& text, const Layout& layout);

}  // namespace tpx::cli
