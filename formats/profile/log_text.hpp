// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <optional>
#include <string>
#include <string_view>

namespace tpx::formats {

/// The number that begins behind `mark` in `line`, thousands separated by commas or not; blanks, dots, bars and quotes
/// before it are skipped.
std::optional<double> number_after(std::string_view line, std::string_view mark);

/// The positive number that ends right before `unit`: "1.23s/it".
std::optional<double> number_before(std::string_view line, std::string_view unit);

/// `line` without the sequences that colour it.
std::string without_colours(std::string_view line);

/// Whether `line` has a progress bar's rate and the bar is of training: it has no name, or that of an epoch.
bool is_training_bar(std::string_view line);

}  // namespace tpx::formats
