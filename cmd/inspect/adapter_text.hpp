// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "cmd/jobs/open_checkpoint.hpp"

#include <nlohmann/json.hpp>

#include <optional>
#include <string>

namespace tpx::cli {

/// What tpx inspect prints about a LoRA adapter.
struct AdapterText {
    std::string family;   ///< families whose rules match the names of the adapted weights
    std::string summary;  ///< base, rank, alpha, target modules, number of weights
    nlohmann::ordered_json json;
};

/// The text for a LoRA adapter, or std::nullopt for other checkpoints. If an adapter cannot be read, adds a note with
/// the cause to the checkpoint and returns std::nullopt.
std::optional<AdapterText> adapter_text(OpenedCheckpoint& opened);

}  // namespace tpx::cli
