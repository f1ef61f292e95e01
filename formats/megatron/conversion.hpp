// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "formats/source.hpp"
#include "lib/layout/express.hpp"

#include <string>
#include <vector>

/// What Megatron's drivers do in conversions; driver.hpp describes each function.
namespace tpx::formats::megatron {

/// Throws Error for fsdp>1 and zero>1, which Megatron's checkpoints do not support. With zero=1, sets
/// use_distributed_optimizer.
void complete_target(Target& target);

/// Takes the settings for vocabulary padding and layer names from the args that a DCP checkpoint converted from
/// Megatron contains.
void complete_config(Source& source, const Target& target, bool renames, Config& config);

/// The args that a new checkpoint stores. Throws Error if Megatron cannot build the model.
Config args_of_target(const Source& source, const Target& target, const ExpressedState& expressed, bool renames,
                      bool has_adam, const Config& config);

/// Adds notes about TransformerEngine extra states and RNG states of rank files that the target cannot store.
void note_dropped(const Source& source, const Target& target, bool renames, std::vector<std::string>& notes);

/// Adds a note if the source has fewer RNG states than `layout` has ranks.
void note_new_rng(const Source& source, const Layout& layout, std::vector<std::string>& notes);

/// Throws Error if Megatron cannot store the state of a model in this layout.
void check_model_layout(const Layout& layout);

/// Driver::adapt_states: converts the states to those of the plain or the distributed optimizer, as `config` requires.
void adapt_states(ExpressedState& expressed, const Config& config, std::optional<DType> dtype,
                  std::vector<std::string>& notes);

}  // namespace tpx::formats::megatron
