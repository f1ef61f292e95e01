// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "formats/source.hpp"

#include <string>

namespace tpx::formats {

/// The dialect to write, and the config.json to write with it.
struct ModelChoice {
    enum class File { none, own, made };
    const Dialect* dialect = nullptr;
    File config_json = File::none;  ///< the source's, or one made of its configuration
};

/// Sees to it that the config.json of the new checkpoint describes the model that its tensors are, for transformers.
/// The source's own is taken if there is one; else one is made for the first model_type of which exactly the stored
/// tensors are the parameters, and `source` is read anew as that. `dialect` is the one chosen for the target; `config`
/// the settings of source and target. Throws Error, with what remains to be given, when names of Hugging Face are asked
/// for and no model in transformers is the one of the source, or when transformers will read the result and settings of
/// the model are unknown; where another framework reads it, a line in `notes` names those settings.
ModelChoice choose_model(Source& source, const Target& target, const Dialect* dialect, const Config& config,
                         std::vector<std::string>& notes);

/// The source's own config.json with what the target's settings change in it; empty when it has none.
std::string own_config_json(const Source& source, const Target& target);

}  // namespace tpx::formats
