// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "cmd/cli/cli.hpp"
#include "cmd/cli/options.hpp"

#include <string>

namespace tpx::cli {

struct HoldOptions : ReadOptions {
    std::string checkpoint;
    std::string name;
    std::string to;
    std::string dialect;
    std::string dtype;
    std::string drop;
    bool masters = false;
    std::string ranks;
    std::string timeout;
    Integer threads;
    std::string device;     ///< auto, cuda or host; empty: host
    std::string rank_gpus;  ///< GPU of each rank, such as 0,0,1,1; empty: the K-th rank uses GPU K
    std::string transport;  ///< auto, nccl, ipc or mpi; empty: auto
    std::string hardware;   ///< file of measured rates; empty: none
    Integer patience;       ///< seconds, with several hosts
    std::string release;
    bool list = false;
    bool empty = false;
    bool foreground = false;
    bool dry_run = false;
};

void run_hold(const HoldOptions& options, Output& out);

/// Describes the command.
void add_hold(Cli& cli);

}  // namespace tpx::cli
