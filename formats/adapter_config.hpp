// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "formats/conversion.hpp"

#include <string>

namespace tpx::formats {

/// Before a LoRA adapter is converted: what lies beside it and belongs to its base, or to the source's framework, is
/// not carried over. Throws Error if Megatron Bridge, for which it is meant, has no such adapter.
void settle_adapter(Source& source, const Target& target);

/// The adapter_config.json of a LoRA adapter that is converted to `format` under other names; empty if the source has
/// one. For PEFT, alpha is lora_alpha of `config`, or that of run_config.yaml, which Megatron Bridge writes. For
/// Megatron, adds a note of how Megatron Bridge loads the adapter. Throws Error if alpha is unknown.
std::string adapter_config_for(const Source& source, Format format, const Config& config, Conversion& out);

}  // namespace tpx::formats
