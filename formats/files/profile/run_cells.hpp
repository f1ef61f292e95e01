// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <string_view>

// What single cells of tables of runs mean. Functions throw Error without naming the cell.
namespace tpx::formats::cells {

bool is_true(std::string_view text);
bool is_false(std::string_view text);

/// A number above 0.
double positive(std::string_view text);

/// Whether a cell for a time or rate says that nothing ran, as tables of experiments do for lack of memory.
bool is_no_time(std::string text);

/// Whether a cell says that a time is missing, rather than that the run failed.
bool is_missing(std::string text);

/// Seconds of a time in `unit`: s, which is the default, or ms.
double seconds_in(std::string_view unit, double time);

/// Seconds of a step at a rate in `unit`: samples/s, which is the default, steps/s or tokens/s. `batch` is in samples,
/// `sequence` in tokens of a sample; 0: unknown.
double seconds_at(std::string_view unit, double rate, double batch, double sequence);

/// The plan's word for recomputation: some tables say only whether all layers are recomputed.
std::string recompute_word(const std::string& cell);

int gpu_count(std::string_view text);

/// Bytes of GPU memory. A number without a unit of its own has `unit`, that of the column.
double gpu_bytes(std::string text, const std::string& unit);

}  // namespace tpx::formats::cells
