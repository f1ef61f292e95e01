// SPDX-License-Identifier: Apache-2.0
#include "lib/core/file_answers.hpp"

#include "lib/core/error.hpp"
#include "lib/core/file.hpp"
#include "lib/core/path.hpp"
#include "lib/core/read_record.hpp"
#include "tests/support/checkpoints.hpp"

#include <doctest/doctest.h>
#include <fcntl.h>

#include <fstream>

using namespace tpx;

namespace {

namespace fs = std::filesystem;

void write_with_folders(const fs::path& path, const std::string& text) {
    fs::create_directories(path.parent_path());
    std::ofstream{path} << text;
}

std::string message_of(const std::function<void()>& body) {
    try {
        body();
    } catch (const Error& error) {
        return fmt::format("{} {}", static_cast<int>(error.exit()), error.what());
    }
    return "";
}

// Everything that the functions of path.hpp and file.hpp return for the checkpoint in `root`, without its path.
std::string look(const fs::path& root) {
    std::string seen;
    const auto say = [&](const auto& value) { seen += fmt::format("{}\n", value); };
    for (const char* name : {"", "a", "sub", "none", "link"}) {
        say(int(path_kind(root / name)));
        say(entry_exists(root / name));
    }
    for (const std::string& name : list_directory(root)) say(name);
    say(list_directory(root / "none").size());
    for (const fs::path& path : list_files_below(root)) say(path.string());
    say(read_file(root / "a"));
    const Fd fd = open_file(root / "sub/b", O_RDONLY);
    std::string part(3, ' ');
    read_at(fd, 2, std::as_writable_bytes(std::span{part}), root / "sub/b");
    say(part);
    std::string error = message_of([&] { open_file(root / "none", O_RDONLY); });
    say(error.substr(error.find("none")));
    error = message_of([&] { read_file(root / "a", 2); });
    say(error.substr(error.find(": ")));
    error = message_of([&] { read_at(fd, 4, std::as_writable_bytes(std::span{part}), "b"); });
    say(error);
    return seen;
}

}  // namespace

TEST_CASE("another process gets the same answers without the files, under any path") {
    const test::Scratch scratch;
    const fs::path root = scratch.path() / "here";
    write_with_folders(root / "a", "content");
    write_with_folders(root / "sub/b", "0123456");
    fs::create_symlink("nowhere", root / "link");
    const std::string seen = look(root);
    std::string packed;
    ReadRecord first;
    {
        FileAnswers answers{root};
        CHECK(FileAnswers::current() == &answers);
        CHECK(look(root) == seen);
        packed = answers.take_packed();
    }
    CHECK(FileAnswers::current() == nullptr);
    fs::remove_all(root);
    const fs::path there = scratch.path() / "there";
    ReadRecord second;
    {
        const FileAnswers answers{there, packed};
        CHECK(look(there) == seen);
    }
    // The other process knows which files the first one has read.
    REQUIRE(second.files().size() == 2);
    for (const char* name : {"a", "sub/b"})
        CHECK(second.files().at(there / name).same_content(first.files().at(root / name)));
}

TEST_CASE("questions without a recorded answer go to the file system") {
    const test::Scratch scratch;
    write_with_folders(scratch.path() / "a", "content");
    write_with_folders(scratch.path() / "b", "other");
    std::string packed;
    {
        FileAnswers answers{scratch.path()};
        read_file(scratch.path() / "a");
        packed = answers.take_packed();
    }
    write_with_folders(scratch.path() / "a", "changed");
    const FileAnswers answers{scratch.path(), packed};
    CHECK(read_file(scratch.path() / "a") == "content");
    CHECK(read_file(scratch.path() / "b") == "other");
    std::string part(3, ' ');
    const Fd fd = open_file(scratch.path() / "a", O_RDONLY);
    read_at(fd, 0, std::as_writable_bytes(std::span{part}), "a");
    CHECK(part == "cha");  // no answer for 3 bytes was recorded
    CHECK(!path_exists(scratch.path() / "c"));
}

TEST_CASE("the recording process detects changes, and keeps its first answers") {
    const test::Scratch scratch;
    write_with_folders(scratch.path() / "a", "one");
    const FileAnswers answers{scratch.path()};
    CHECK(read_file(scratch.path() / "a") == "one");
    write_with_folders(scratch.path() / "a", "two");
    CHECK(read_file(scratch.path() / "a") == "two");
}
