// SPDX-License-Identifier: Apache-2.0
#include "lib/exec/wire/mirror.hpp"

#include "lib/core/file.hpp"
#include "tests/mpi/scratch.hpp"

#include <doctest/doctest.h>

using namespace tpx;

namespace {

// The content of the file in question; repeated to fill several messages if the question requests that.
std::string answer(const std::filesystem::path& path, std::string_view question) {
    std::string text = fmt::format("{} says {}", read_file(path), question);
    if (question == "long") text.append(std::size_t{20} << 20, '.');
    return text;
}

std::string name_of(int host, int file) { return fmt::format("{}-{}", host, file); }

}  // namespace

TEST_CASE("questions about files of other hosts are answered there, and all ranks get the same answers") {
    const mpi::Comm world = mpi::Comm::world();
    const test::Scratch scratch{world};
    constexpr int files = 3;
    for (int host = 0; host < world.size(); ++host)
        for (int file = 0; file < files; ++file)
            scratch.write(fmt::format("h{}/{}", host, name_of(host, file)), name_of(host, file));
    Mirror mirror{world, scratch / fmt::format("h{}", world.rank()), world.rank(), nullptr, answer};
    std::vector<std::string> expected, answers;
    const auto ask = [&](const std::filesystem::path& folder) {
        std::vector<FileQuestion> questions;
        expected.clear();
        for (int host = 0; host < world.size(); ++host) {
            for (int file = 0; file < files; ++file) {
                const std::string text = file == 1 ? "long" : std::string(static_cast<std::size_t>(host + file), 'x');
                questions.push_back({folder / name_of(host, file), text});
                expected.push_back(name_of(host, file) + " says " + text);
                if (file == 1) expected.back().append(std::size_t{20} << 20, '.');
            }
        }
        return ask_other_processes(questions);
    };
    mirror.read([&] {
        answers = ask(mirror.folder()).value();
        CHECK(!ask("/elsewhere"));
    });
    CHECK(answers == expected);
    CHECK(!ask(mirror.folder()));  // no process is left to answer
    for (std::size_t file = 0; file < mirror.files().size(); ++file) CHECK(mirror.was_read(file));
    if (world.rank() == 0) CHECK(mirror.traffic().reads == expected.size());
    answers.clear();
    mirror.read_on_first([&] { answers = ask(mirror.folder()).value(); });
    if (world.rank() == 0) CHECK(answers == expected);
}

TEST_CASE("a question that cannot be answered fails on all ranks, after the other answers have arrived") {
    const mpi::Comm world = mpi::Comm::world();
    const test::Scratch scratch{world};
    for (int host = 0; host < world.size(); ++host) scratch.write(fmt::format("h{0}/{0}", host), "content");
    for (int failing = 0; failing < world.size(); ++failing) {
        const auto fail = [&](const std::filesystem::path&, std::string_view) -> std::string {
            if (world.rank() == failing) throw Error{Exit::no, "rank {} cannot say", failing};
            return std::string(std::size_t{20} << 20, '.');
        };
        Mirror mirror{world, scratch / fmt::format("h{}", world.rank()), world.rank(), nullptr, fail};
        const std::string message = test::message_of([&] {
            mirror.read([&] {
                std::vector<FileQuestion> questions;
                for (int host = 0; host < world.size(); ++host)
                    questions.push_back({mirror.folder() / fmt::format("{}", host), "?"});
                ask_other_processes(questions);
            });
        });
        CHECK(message.find(fmt::format("rank {} cannot say", failing)) != std::string::npos);
    }
}

TEST_CASE("a question that only one rank asks is an error on all") {
    const mpi::Comm world = mpi::Comm::world();
    if (world.size() == 1) return;
    const test::Scratch scratch{world};
    scratch.write("store/file", "content");
    Mirror mirror{world, scratch / "store", world.rank(), nullptr, answer};
    const std::string message = test::message_of([&] {
        mirror.read([&] {
            const FileQuestion question{mirror.folder() / "file", fmt::format("{}", world.rank() == 1)};
            ask_other_processes(std::span{&question, 1});
        });
    });
    CHECK(message.find("rank 1 only asks about") != std::string::npos);
}
