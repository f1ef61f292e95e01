// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "formats/files/profile/columns.hpp"

#include <optional>
#include <string>
#include <string_view>
#include <utility>

namespace tpx::formats {

/// What doubtful_meaning() returns for columns that count the tokens of a batch.
inline constexpr std::string_view tokens_of_batch = "batch, but in tokens";

/// Whether `column` records requested resources (ReqTRES); allocated ones take precedence.
bool is_requested(std::string_view column);

/// The quantity that a column called `column` holds in the tables of common frameworks, and its source: "num_gpus" is
/// "gpus", "Step time (ms)" is "seconds" in ms, "params.tp" of MLflow is "tp". Letter case and what separates words do
/// not matter.
std::optional<std::pair<std::string, ColumnSource>> known_alias(std::string_view column);

/// The quantities that a column called `column` may hold, as text, if that is not certain: "batch_size" may be "batch
/// or micro_batch". Empty for other names.
std::string_view doubtful_meaning(std::string_view column);

}  // namespace tpx::formats
