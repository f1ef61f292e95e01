// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <span>
#include <string>
#include <string_view>

namespace tpx::cli {

/// What `tpx help NAME` explains, beside the commands.
struct HelpTopic {
    std::string_view name;
    std::string_view summary;
    std::string (*text)();
};

std::span<const HelpTopic> help_topics();

/// Null if there is none of that name.
const HelpTopic* find_help_topic(std::string_view name);

}  // namespace tpx::cli
