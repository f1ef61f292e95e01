// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <span>
#include <string>
#include <string_view>

namespace tpx::cli {

/// A topic of `tpx help NAME` other than a command.
struct HelpTopic {
    std::string_view name;
    std::string_view summary;
    std::string (*text)();
};

std::span<const HelpTopic> help_topics();

/// Returns nullptr if there is no such topic.
const HelpTopic* find_help_topic(std::string_view name);

/// "; did you mean 'policies'?" for a name that is not a topic, or an empty text if no topic resembles it.
std::string unknown_topic_advice(std::string_view name);

}  // namespace tpx::cli
