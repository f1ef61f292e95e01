// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "cmd/cli/cli.hpp"
#include "formats/files/profile/throughput_file.hpp"

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

namespace tpx::cli {

/// A throughput model as options give it.
struct NamedModelOptions {
    std::string model, like;
    std::vector<std::string> rules;
    Integer sequence;                         ///< tokens per sample
    std::optional<std::uint64_t> gpu_memory;  ///< bytes
};

/// Returns the tokens per sample of measured runs; unset if they are unknown.
using SequenceOf = std::function<std::optional<double>()>;

struct NamedModel {
    formats::ThroughputModel model;
    bool is_description = false;    ///< not a file of tpx-throughput(5)
    bool assumes_sequence = false;  ///< nothing says how many tokens a sample has
};

/// Reads options.model: a file of tpx-throughput(5), or a description of tpx-model(5), which is not fitted and whose
/// sizes are printed as a note. Tokens per sample come from the file, --sequence or `of_runs`; a description has at
/// most 4096 otherwise. With --like, the parameters are scaled from that fitted model. Throws Error (usage) if
/// options.model is fitted although --like is given, or if options contradict the files.
NamedModel read_named_model(const NamedModelOptions& options, const SequenceOf& of_runs, Output& out);

}  // namespace tpx::cli
