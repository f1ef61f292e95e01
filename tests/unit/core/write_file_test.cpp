// SPDX-License-Identifier: Apache-2.0
#include "lib/core/write_file.hpp"

#include "lib/core/error.hpp"
#include "lib/core/file.hpp"
#include "lib/core/path.hpp"
#include "tests/support/scratch.hpp"

#include <doctest/doctest.h>

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cstdlib>
#include <fstream>
#include <thread>

namespace fs = std::filesystem;
using namespace tpx;
using test::message_of;
using test::Scratch;

namespace {

mode_t mode_of(const fs::path& path) {
    struct stat status {};
    REQUIRE(::stat(path.c_str(), &status) == 0);
    return status.st_mode & 07777;
}

using Names = std::vector<std::string>;

}  // namespace

TEST_CASE("a file is replaced, and keeps its mode (T17)") {
    const Scratch folder;
    const fs::path file = folder.path() / "plan";
    const mode_t mask = ::umask(022);
    write_file(file, "old");
    CHECK(mode_of(file) == 0644);
    CHECK(::chmod(file.c_str(), 0600) == 0);
    fs::create_hard_link(file, folder.path() / "other");
    write_file(file, "new");
    CHECK(mode_of(file) == 0600);
    CHECK(read_file(file) == "new");
    CHECK(read_file(folder.path() / "other") == "old");  // replaced, not overwritten
    ::umask(mask);
    CHECK(list_directory(folder.path()) == Names{"other", "plan"});
}

TEST_CASE("a link stays, and its target is replaced (T17)") {
    const Scratch folder;
    fs::create_directory(folder.path() / "a");
    std::ofstream{folder.path() / "a/real"} << "old";
    fs::create_symlink("a/real", folder.path() / "link");
    fs::create_symlink("link", folder.path() / "link2");
    write_file(folder.path() / "link2", "new");
    CHECK(fs::is_symlink(folder.path() / "link2"));
    CHECK(fs::is_symlink(folder.path() / "link"));
    CHECK(read_file(folder.path() / "a/real") == "new");
    fs::create_symlink("a/none", folder.path() / "dangling");
    write_file(folder.path() / "dangling", "made");
    CHECK(read_file(folder.path() / "a/none") == "made");
    CHECK(list_directory(folder.path() / "a") == Names{"none", "real"});
    fs::create_symlink("loop", folder.path() / "loop");
    CHECK(message_of([&] { write_file(folder.path() / "loop", "x"); }) ==
          (folder.path() / "loop").string() + ": Too many levels of symbolic links");
}

TEST_CASE("files with predictable names are not written (T17)") {
    const Scratch folder;
    std::ofstream{folder.path() / "victim"} << "precious";
    for (const std::string& ending : {std::string{".tmp"}, ".partial-" + std::to_string(::getpid())})
        fs::create_symlink("victim", folder.path() / ("plan" + ending));
    write_file(folder.path() / "plan", "content");
    CHECK(read_file(folder.path() / "victim") == "precious");
    CHECK(read_file(folder.path() / "plan") == "content");
    CHECK(list_directory(folder.path()).size() == 4);
}

TEST_CASE("a link of another user in a world-writable directory is refused") {
    if (::geteuid() != 0) return;  // only root can give links away
    const Scratch folder;
    std::ofstream{folder.path() / "victim"} << "precious";
    const fs::path shared = folder.path() / "shared", link = shared / "plan";
    fs::create_directory(shared);
    CHECK(::chmod(shared.c_str(), 01777) == 0);
    fs::create_symlink("../victim", link);
    CHECK(::lchown(link.c_str(), 12345, 12345) == 0);
    CHECK(message_of([&] { write_file(link, "x"); }).find("a link that another user made") != std::string::npos);
    CHECK(read_file(folder.path() / "victim") == "precious");
    CHECK(list_directory(shared) == Names{"plan"});
    CHECK(::lchown(link.c_str(), ::geteuid(), 0) == 0);
    write_file(link, "x");
    CHECK(read_file(folder.path() / "victim") == "x");
}

TEST_CASE("special files are written in place (T17)") {
    const Scratch folder;
    const fs::path pipe = folder.path() / "pipe";
    REQUIRE(::mkfifo(pipe.c_str(), 0600) == 0);
    std::string got(7, '\0');
    std::thread reader{[&] { std::ifstream{pipe}.read(got.data(), 7); }};
    write_file(pipe, "content");
    reader.join();
    CHECK(got == "content");
    CHECK(fs::is_fifo(pipe));
    write_file("/dev/null", "content");
    CHECK(fs::is_character_file("/dev/null"));
    CHECK(message_of([] { write_file("/dev/full", "content"); }) == "/dev/full: No space left on device");
    CHECK(list_directory(folder.path()) == Names{"pipe"});
}

TEST_CASE("a file is written through the path of its open descriptor") {
    const Scratch folder;
    const fs::path file = folder.path() / "log";
    const Fd fd = open_file(file, O_WRONLY | O_CREAT | O_APPEND);
    const std::string number = std::to_string(fd.get());
    write_file("/dev/fd/" + number, "one ");
    fs::create_symlink("/proc/self/fd/" + number, folder.path() / "link");
    write_file(folder.path() / "link", "two");
    check_writable(folder.path() / "link");
    CHECK(read_file(file) == "one two");
    CHECK(message_of([] { write_file("/dev/fd/999", "x"); }) == "/dev/fd/999: Bad file descriptor");
    CHECK(message_of([] { check_writable("/dev/fd/999"); }) == "/dev/fd/999: Bad file descriptor");
}

TEST_CASE("a failed write is reported and changes nothing") {
    const Scratch folder;
    std::ofstream{folder.path() / "file"} << "old";
    const auto refusal = [](const fs::path& path) {
        const std::string written = message_of([&] { write_file(path, "x"); });
        CHECK(message_of([&] { check_writable(path); }) == written);
        return written;
    };
    const std::string base = folder.path().string();
    CHECK(refusal(folder.path() / "none/file") == base + "/none/file: No such file or directory");
    CHECK(refusal(folder.path() / "file/x") == base + "/file/x: Not a directory");
    CHECK(refusal(folder.path()) == base + ": Is a directory");
    CHECK(refusal(folder.path() / "none/") == base + "/none/: Is a directory");
    CHECK(refusal("") == ": No such file or directory");
    check_writable(folder.path() / "file");
    check_writable(folder.path() / "new");
    CHECK(list_directory(folder.path()) == Names{"file"});
    CHECK(read_file(folder.path() / "file") == "old");
    write_file(folder.path() / std::string(255, 'n'), "long");
    CHECK(read_file(folder.path() / std::string(255, 'n')) == "long");
}
