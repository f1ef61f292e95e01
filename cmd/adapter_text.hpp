// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "cmd/reading.hpp"

#include <nlohmann/json.hpp>

#include <optional>
#include <string>

namespace tpx::cli {

/// What tpx inspect prints about a LoRA adapter.
struct AdapterText {
    std::string family;   ///< those whose names the changed weights have
    std::string summary;  ///< base, rank, alpha, target modules, numbers of weights
    nlohmann::ordered_json json;
};

/// Nothing for other checkpoints. An adapter that cannot be understood is noted in the checkpoint.
std::optional<AdapterText> adapter_text(Opened& opened);

}  // namespace tpx::cli
