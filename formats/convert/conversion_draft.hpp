// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "formats/convert/conversion.hpp"
#include "formats/convert/model_choice.hpp"

namespace tpx::formats {

/// The files of the new checkpoint that `out` describes: its tensors and arguments, and the files beside them, such as
/// config.json and tokenizers. `config` is the source's configuration with the user's settings.
Draft make_draft(const Source& source, const Target& target, const ModelChoice& choice, const Config& config,
                 Conversion& out);

}  // namespace tpx::formats
