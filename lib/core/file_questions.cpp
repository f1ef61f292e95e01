// SPDX-License-Identifier: Apache-2.0
#include "lib/core/file_questions.hpp"

#include <utility>

namespace tpx {
namespace {

QuestionHook::Ask& question_hook() {
    static QuestionHook::Ask hook;
    return hook;
}

}  // namespace

std::optional<std::vector<std::string>> ask_other_processes(std::span<const FileQuestion> questions) {
    return question_hook() ? question_hook()(questions) : std::nullopt;
}

QuestionHook::QuestionHook(Ask ask) { question_hook() = std::move(ask); }

QuestionHook::~QuestionHook() { question_hook() = nullptr; }

}  // namespace tpx
