// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <filesystem>
#include <functional>
#include <optional>
#include <span>
#include <string>
#include <vector>

namespace tpx {

/// A question about the content of a file that takes many reads to answer; the caller defines what `text` means.
struct FileQuestion {
    std::filesystem::path path;
    std::string text;
};

/// The answers of the processes that store the files; nothing if no QuestionHook exists or it does not know the files.
std::optional<std::vector<std::string>> ask_other_processes(std::span<const FileQuestion> questions);

/// While a QuestionHook exists, ask_other_processes() calls it, from any thread: it knows processes that can read the
/// files. At most one may exist.
class QuestionHook {
public:
    using Ask = std::function<std::optional<std::vector<std::string>>(std::span<const FileQuestion> questions)>;
    explicit QuestionHook(Ask ask);
    ~QuestionHook();
    QuestionHook(const QuestionHook&) = delete;
    QuestionHook& operator=(const QuestionHook&) = delete;
};

}  // namespace tpx
