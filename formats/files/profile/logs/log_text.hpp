// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <optional>
#include <string>
#include <string_view>

namespace tpx::formats {

inline bool is_digit(char c) { return c >= '0' && c <= '9'; }

/// Whether `part` occurs in `text`.
inline bool contains(std::string_view text, std::string_view part) { return text.find(part) != text.npos; }

/// The number that begins behind `mark` in `line`, as in "5,756", "2e+3" or "1.639E+03"; blanks, dots, bars and quotes
/// before it are skipped.
std::optional<double> number_after(std::string_view line, std::string_view mark);

/// The positive number that ends right before `unit`: "1.23s/it".
std::optional<double> number_before(std::string_view line, std::string_view unit);

/// `line` without the terminal's escape sequences, such as those for colors.
std::string without_escapes(std::string_view line);

/// Whether `line` has a progress bar's rate and the bar is of training: it has no name, or that of an epoch.
bool is_training_bar(std::string_view line);

/// The step of a bar: 67 for "Epoch 1:  72%|███▏  | 28/39 [00:10<...", because epochs count from 0. Nothing if the line
/// has no such count.
std::optional<double> step_of_bar(std::string_view line);

/// The last step of a bar: 39 in the example above.
std::optional<double> total_of_bar(std::string_view line);

/// Seconds per step on a bar of training, "1.23s/it" or "4.56it/s"; nothing if `line` is not such a bar.
std::optional<double> seconds_of_bar(std::string_view line);

}  // namespace tpx::formats
