// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "formats/source.hpp"
#include "lib/layout/express.hpp"

#include <string>
#include <vector>

/// What Megatron's drivers do in conversions; driver.hpp says what each function is asked.
namespace tpx::formats::megatron {

/// Megatron's distributed optimizer is its stage 1 of ZeRO; its checkpoints know no other stage, and no FSDP.
void settle_target(Target& target);

/// Padding of the vocabulary and names of layers follow args, which a DCP checkpoint made of Megatron's kept.
void settle_config(Source& source, const Target& target, bool renames, Config& config);

/// The args that a new checkpoint stores. Throws Error if Megatron cannot build the model.
Config args_of_target(const Source& source, const Target& target, const Expressed& expressed, bool renames,
                      bool has_adam, const Config& config);

/// Adds to `notes` what the files of ranks have for TransformerEngine and random numbers, where the target has no place
/// for it.
void note_left_out(const Source& source, const Target& target, bool renames, std::vector<std::string>& notes);

/// Adds to `notes` if ranks of `layout` get random numbers of their own making, because the source has too few states.
void note_new_rng(const Source& source, const Layout& layout, std::vector<std::string>& notes);

}  // namespace tpx::formats::megatron
