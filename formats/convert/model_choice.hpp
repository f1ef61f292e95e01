// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "formats/source.hpp"

#include <string>

namespace tpx::formats {

/// The dialect to write, and the config.json to write with it.
struct ModelChoice {
    enum class File { none, own, made };
    const Dialect* dialect = nullptr;
    File config_json = File::none;  ///< `own`: the source's; `made`: created from its configuration
};

/// Ensures that the config.json of the new checkpoint describes, for transformers, the model of its tensors. Uses the
/// source's config.json if there is one; else creates one for the first model_type whose parameters are exactly the
/// stored tensors, and sets the reading of `source` accordingly. `dialect` is the one chosen for the target; `config`
/// has the settings of source and target. Throws Error, with what the user must specify, if Hugging Face names are
/// requested but no transformers model matches the source, or if transformers will read the result but settings of the
/// model are unknown. If another framework reads it, a note lists those settings.
ModelChoice choose_model(Source& source, const Target& target, const Dialect* dialect, const Config& config,
                         std::vector<std::string>& notes);

/// The source's own config.json, changed by the target's settings; empty if it has none.
std::string source_config_json(const Source& source, const Target& target);

}  // namespace tpx::formats
