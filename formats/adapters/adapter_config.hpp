// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "formats/source.hpp"

#include <span>
#include <string>
#include <vector>

namespace tpx::formats {

/// Prepares a LoRA adapter for conversion: drops config.json of the base and run_config.yaml from the files to copy.
/// Throws Error if Megatron Bridge does not support the adapter's settings.
void prepare_adapter(Source& source, const Target& target);

/// The adapter_config.json of a LoRA adapter that is converted to `format` under other names, with these `tensors`;
/// empty if the source has one. For PEFT, alpha is lora_alpha of `config`, or that of run_config.yaml, which Megatron
/// Bridge writes. For Megatron, adds to `notes` how Megatron Bridge loads the adapter. Throws Error if alpha is unknown
/// or not a number.
std::string adapter_config_for(const Source& source, Format format, std::span<const Tensor> tensors,
                               const Config& config, std::vector<std::string>& notes);

}  // namespace tpx::formats
