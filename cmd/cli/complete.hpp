// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "cmd/cli/cli.hpp"

#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace tpx::cli {

/// One way to go on with the last word of a command line; a word that begins with ':' tells the shell what to do.
struct Candidate {
    std::string word;
    std::string description;
};

/// ":file": the shell's own completion of paths serves better than anything said here.
inline constexpr std::string_view complete_files = ":file";
/// ":nospace": what follows is only the beginning of a word.
inline constexpr std::string_view complete_partial = ":nospace";

/// How `words`, what follows "tpx" up to the cursor, can go on; the last of them is the one being typed.
std::vector<Candidate> complete(const Cli& cli, std::span<const std::string> words);

}  // namespace tpx::cli
