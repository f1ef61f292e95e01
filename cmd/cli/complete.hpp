// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "cmd/cli/cli.hpp"

#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace tpx::cli {

/// A completion of the last word of a command line or, if it begins with ':', an instruction to the shell.
struct Candidate {
    std::string word;
    std::string description;
};

/// ":file": the shell also completes paths.
inline constexpr std::string_view complete_files = ":file";
/// ":nospace": the shell adds no space, because the other candidates are only beginnings of words.
inline constexpr std::string_view complete_partial = ":nospace";

/// The completions of `words`, which are the words after "tpx" up to the cursor; the last one is being typed.
std::vector<Candidate> complete(const Cli& cli, std::span<const std::string> words);

}  // namespace tpx::cli
