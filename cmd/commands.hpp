// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "cmd/cli.hpp"

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace tpx::cli {

/// Options of every command that reads a checkpoint; empty: not given.
struct ReadOptions {
    std::vector<std::string> rules;
    std::string config;
    std::vector<std::string> settings;
    bool allows_missing_files = false;  ///< set by tpx hold --ranks: files that are not read may be missing
};

/// Options of every command that plans or writes a new checkpoint; empty: as in the source.
struct TargetOptions {
    std::string to;
    std::string format;
    std::string dialect;
};

/// Techniques that plans or layouts must not use (`without`) or may use (`only`); both empty: all are allowed.
struct TechniqueOptions {
    std::vector<std::string> without, only;
};

struct InspectOptions : ReadOptions {
    std::string checkpoint;
    std::string where;
    std::string html;
    bool tensors = false;
    bool state = false;
};

struct PlanOptions : ReadOptions, TargetOptions, TechniqueOptions {
    std::string checkpoint;
    std::string model;
    std::string roles;
    std::string from;
    std::vector<std::string> via;
    std::string hosts;
    std::string hardware;
    std::string ranks_on;
    std::string stores;
    std::string lost;
    std::string spare;
    std::string nic;
    std::string disk;
    std::optional<std::uint64_t> gpu_memory;
    std::string objective;
    std::string placement;
    std::string state;
    std::string iteration;
    std::string storage_iteration;
    std::optional<std::uint64_t> window;
    std::string output;
    std::string check;
    std::string report;
    std::string launch;
    std::string rank_map;
    std::string devices;
    std::string batch;
    std::string sequence;
    std::string throughput;
    bool pin = false;
    bool survive = false;
    bool derive_weights = false;
    bool list = false;
    std::string sample;
    bool full = false;
    bool pareto = false;
    std::string top;
};

/// Resource limits of a process, and how long it waits for other ranks.
struct LimitOptions {
    std::optional<std::uint64_t> memory;
    std::string threads;
    int usual_threads = 2;  ///< default of --threads
    std::string patience;
    std::string io_ranks;
    std::string log;  ///< of reshard and migrate
};

struct ReshardOptions : ReadOptions, TargetOptions, LimitOptions {
    ReshardOptions() { usual_threads = 4; }  // while some threads wait for the disk, others copy

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

struct MigrateOptions {
    PlanOptions plan;  ///< includes the stores; options that tpx migrate lacks have their defaults
    LimitOptions limits;
    std::string output;
    bool emulate = false;
    bool dry_run = false;
    bool restart = false;
};

struct VerifyOptions : ReadOptions, LimitOptions {
    std::string first;
    std::string second;
    std::vector<std::string> ignore;
    bool weights_only = false;
    bool write = false;
    bool masters = false;
    bool dtype = false;
    bool tensors = false;
};

void run_inspect(const InspectOptions& options, Output& out);
void run_plan(const PlanOptions& options, Output& out);
void run_reshard(const ReshardOptions& options, Output& out);
void run_migrate(const MigrateOptions& options, Output& out);
void run_verify(const VerifyOptions& options, Output& out);

/// Describe one command each.
void add_inspect(Cli& cli);
void add_plan(Cli& cli);
void add_reshard(Cli& cli);
void add_migrate(Cli& cli);
void add_verify(Cli& cli);

/// Describes every command of tpx.
void add_commands(Cli& cli);

}  // namespace tpx::cli
