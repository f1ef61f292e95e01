// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <optional>
#include <string>
#include <string_view>

// What single cells of tables of runs mean. Functions throw Error without naming the cell.
namespace tpx::formats::cells {

/// The value of a word such as true, Yes or 1.0; unset for other text.
std::optional<bool> truth(std::string_view text);

/// The same; throws Error for other text.
bool flag(std::string_view text);

/// Whether a cell requests offloading: a flag, or the device "cpu". Throws Error for other text.
bool offload_flag(std::string_view text);

/// A whole number as text; "4.0", as some programs write it, is "4". "*" stays as it is.
std::string whole_text(const std::string& text);

/// The stage of ZeRO as text: "2" for "2" and for text such as "ZeRO-2".
std::string zero_stage(const std::string& text);

/// A number above 0.
double positive(std::string_view text);

/// Whether a cell for a time, rate or memory has no number above 0: it is empty, 0, or a word such as NaN or OOM.
bool lacks_number(std::string text);

/// Whether a cell has no value: it is empty or a word such as NaN. For a time, this does not mean that the run failed.
bool is_missing(std::string text);

/// Seconds of a time in `unit`: s, which is the default, ms or us.
double seconds_in(std::string_view unit, double time);

/// A time above 0, and its unit if the cell has one.
struct MeasuredTime {
    double value = 0;
    std::string unit;
};

/// The time of "0.52", "520 ms" or "0.52 ± 0.01 s". Throws Error for other text.
MeasuredTime measured_time(std::string_view text);

/// Whether the word for the status of a run says that it failed.
bool has_failed(std::string_view status);

/// The work of a step, and the GPUs that share it.
struct StepSize {
    double batch = 1;     ///< samples
    double sequence = 0;  ///< tokens of a sample; 0: unknown
    int gpus = 1;
    double flops = 0;         ///< of a sample, forward and backward; 0: unknown
    bool recomputes = false;  ///< all layers run forward a second time
};

/// Whether rates in `unit` count floating-point operations.
bool counts_flops(std::string_view unit);

/// Seconds of a step at a rate in `unit`: samples/s, which is the default, steps/s, steps/min, steps/h, tokens/s,
/// ktokens/s or TFLOP/s, or samples/s, tokens/s, ktokens/s or TFLOP/s of each GPU, as in samples/s/GPU. "hardware
/// TFLOP/s" include the recomputation of layers.
double seconds_at(std::string_view unit, double rate, const StepSize& step);

/// The plan's word for recomputation: some tables say only whether all layers are recomputed.
std::string recompute_word(const std::string& cell);

/// A number of GPUs and their type.
struct TypedGpus {
    int count = 0;
    std::string type;
};

/// The number and type of GPUs in a cell such as "8x A100" or "A100 x 8"; unset if it contains only a type, such as
/// "A100" or "3090".
std::optional<TypedGpus> typed_gpus(std::string_view text);

/// A number of GPUs: "8", "8 GPUs", "8 A100", "8x A100", or a list of Slurm's resources such as "gpu:a100:8". Throws
/// Error for other text.
int gpu_count(std::string_view text);

/// Whether text is a number other than a GPU model such as 3090 or 6000.
bool is_count_not_type(std::string_view text);

/// A number of hosts. Throws Error for other text.
int host_count(std::string_view text);

/// Whether a GPU can have as many bytes of memory.
bool is_gpu_memory(double bytes);

/// Bytes of GPU memory. A number without a unit of its own has `unit`, that of the column.
double gpu_bytes(std::string text, const std::string& unit);

}  // namespace tpx::formats::cells
