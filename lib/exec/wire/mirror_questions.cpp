// SPDX-License-Identifier: Apache-2.0
#include "lib/core/error.hpp"
#include "lib/core/fingerprint.hpp"
#include "lib/core/packing.hpp"
#include "lib/exec/wire/mirror.hpp"

#include <algorithm>
#include <string_view>

namespace tpx {
namespace {

/// A question that was answered.
struct AnsweredQuestion {
    std::uint64_t file = 0;
    std::uint64_t question = 0;  ///< a hash of its text
    std::uint64_t size = 0;      ///< of the answer
};

std::uint64_t hash_of(const FileQuestion& question) {
    Fingerprint print;
    print.add(question.text);
    return print.value();
}

}  // namespace

/// The file number of each question; nothing if a question is about a file outside the folder.
std::optional<std::vector<std::size_t>> Mirror::numbers_of(std::span<const FileQuestion> questions) const {
    std::vector<std::size_t> numbers;
    for (const FileQuestion& question : questions) {
        const std::string path = question.path.lexically_relative(folder_).string();
        const auto file =
            std::ranges::lower_bound(files_, path, {}, [](const StoredFile& it) { return it.path.string(); });
        if (file == files_.end() || file->path.string() != path) return std::nullopt;
        numbers.push_back(static_cast<std::size_t>(file - files_.begin()));
    }
    return numbers;
}

std::optional<std::vector<std::string>> Mirror::ask(FileFetcher& fetcher, std::span<const FileQuestion> questions,
                                                    bool keep) {
    const auto numbers = numbers_of(questions);
    if (!numbers) return std::nullopt;
    std::vector<RemoteQuestion> remote;
    for (std::size_t k = 0; k < questions.size(); ++k)
        remote.push_back({servers_[(*numbers)[k]], (*numbers)[k], questions[k].text});
    fetcher.ask(remote);
    std::vector<std::string> answers;
    for (std::size_t k = 0; k < questions.size(); ++k) {
        ++traffic_.reads;
        traffic_.bytes_read += remote[k].answer.size();
        if (keep) answers_.insert_or_assign({(*numbers)[k], hash_of(questions[k])}, remote[k].answer);
        answers.push_back(std::move(remote[k].answer));
    }
    return answers;
}

/// The answers that rank 0 got to the same questions.
std::optional<std::vector<std::string>> Mirror::recorded_answers(std::span<const FileQuestion> questions) const {
    const auto numbers = numbers_of(questions);
    if (!numbers) return std::nullopt;
    std::vector<std::string> answers;
    for (std::size_t k = 0; k < questions.size(); ++k) {
        const auto answer = answers_.find({(*numbers)[k], hash_of(questions[k])});
        if (answer == answers_.end())
            throw failure("internal error: rank {} only asks about {}; please report this", comm_.rank(),
                          questions[k].path.string());
        answers.push_back(answer->second);
    }
    return answers;
}

/// All AnsweredQuestions, and their answers in the same order.
std::pair<std::string, std::string> Mirror::what_was_answered() const {
    std::string questions, answers;
    for (const auto& [key, answer] : answers_) {
        const AnsweredQuestion question{key.first, key.second, answer.size()};
        pack(questions, question);
        answers += answer;
    }
    return {std::move(questions), std::move(answers)};
}

void Mirror::record_answers(const std::string& questions, const std::string& answers) {
    std::size_t at = 0;
    for (std::string_view left = questions; !left.empty();) {
        const auto question = unpack<AnsweredQuestion>(left);
        answers_.insert_or_assign({question.file, question.question}, answers.substr(at, question.size));
        at += question.size;
    }
}

}  // namespace tpx
