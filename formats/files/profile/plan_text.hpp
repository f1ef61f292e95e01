// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <string_view>

namespace tpx::formats {

/// `text` in the form that parse_execution_plan() reads, if it is a plan in another common form, such as
/// "TP4-PP2-DP2", "tp: 4 pp: 2" or "ZeRO-2 offload"; otherwise `text` itself. "FSDP" and "DDP" use all GPUs.
std::string plan_text(std::string_view text);

/// Whether `text` is a plan in any of these forms.
bool is_plan_text(std::string_view text);

}  // namespace tpx::formats
