// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <cstddef>
#include <string_view>

namespace tpx::formats {

/// What a training log can record about a run, besides step times. The first fields are columns of a table of runs, in
/// this order; columns are derived from `layers` and the fields after it.
enum class LogField {
    model,
    parameters,
    gpu,
    gpus,
    per_host,
    dp,
    tp,
    pp,
    cp,
    ep,
    etp,
    vpp,
    micro_batches,
    micro_batch,
    accumulation,
    recompute,
    zero,
    offload,
    sequence,
    batch,
    sequence_length,
    layers,
    layers_per_chunk,
    total_steps
};

/// The names of the fields; up to sequence_length those of the columns, see tpx-throughput(5).
inline constexpr std::array<std::string_view, 24> log_field_names{"model",
                                                                  "parameters",
                                                                  "gpu",
                                                                  "gpus",
                                                                  "per_host",
                                                                  "dp",
                                                                  "tp",
                                                                  "pp",
                                                                  "cp",
                                                                  "ep",
                                                                  "etp",
                                                                  "vpp",
                                                                  "micro_batches",
                                                                  "micro_batch",
                                                                  "accumulation",
                                                                  "recompute",
                                                                  "zero",
                                                                  "offload",
                                                                  "sequence",
                                                                  "batch",
                                                                  "sequence_length",
                                                                  "layers",
                                                                  "layers_per_chunk",
                                                                  "total_steps"};

/// How many of the fields are columns.
inline constexpr std::size_t log_column_count = 21;

/// The value of `offload` for optimizer state or weights on NVMe drives.
inline constexpr std::string_view nvme_offload = "nvme";

/// The fields that describe how steps are executed; an execution plan replaces all of them.
inline constexpr std::array<LogField, 14> plan_fields{
    LogField::dp,          LogField::tp,           LogField::pp,        LogField::cp,
    LogField::ep,          LogField::etp,          LogField::vpp,       LogField::micro_batches,
    LogField::micro_batch, LogField::accumulation, LogField::recompute, LogField::zero,
    LogField::offload,     LogField::sequence};

}  // namespace tpx::formats
