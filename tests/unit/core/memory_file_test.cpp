// SPDX-License-Identifier: Apache-2.0
#include "lib/core/memory_file.hpp"

#include "lib/core/path.hpp"
#include "tests/support/scratch.hpp"

#include <doctest/doctest.h>

#include <sys/mman.h>
#include <unistd.h>

#include <fstream>
#include <limits>

using namespace tpx;
namespace fs = std::filesystem;

namespace {

void make_file(const fs::path& path, std::string_view text) {
    fs::create_directories(path.parent_path());
    std::ofstream{path} << text;
}

}  // namespace

TEST_CASE("files in memory have a fixed size and no path") {
    const Fd fd = make_memory_file("test", 5000);
    CHECK(is_memory_file(fd));
    CHECK(::ftruncate(fd.get(), 4000) == -1);
    CHECK(::ftruncate(fd.get(), 6000) == -1);
    const std::string path = fmt::format("/proc/self/fd/{}", fd.get());
    CHECK(size_of_file(path) == 5000);
    CHECK(real_path(path) == fmt::format("/proc/{}/fd/{}", ::getpid(), fd.get()));
    CHECK_FALSE(is_memory_file(Fd{::memfd_create("unsealed", MFD_CLOEXEC | MFD_ALLOW_SEALING)}));
    CHECK_FALSE(is_memory_file(open_file("/dev/null", O_WRONLY)));
    CHECK(test::message_of([] {
              make_memory_file("test", std::numeric_limits<std::uint64_t>::max() / 2 + 1);
          }).starts_with("test: cannot make a file of 9223372036854775808 bytes in memory: "));
}

TEST_CASE("the available memory is the least that the system and the control groups allow") {
    const test::Scratch scratch;
    const fs::path root = scratch.path();
    CHECK(available_memory(root).bytes == std::numeric_limits<std::uint64_t>::max());
    make_file(root / "proc/meminfo", "MemTotal:  900 kB\nMemFree:  1 kB\nMemAvailable:     700 kB\n");
    CHECK(available_memory(root).bytes == 700 * 1024);
    CHECK(available_memory(root).limit == "MemAvailable");

    const fs::path groups = root / "sys/fs/cgroup";
    make_file(root / "proc/self/cgroup", "0::/job/step\n");
    make_file(groups / "job/step/memory.max", "max\n");
    make_file(groups / "job/step/memory.current", "5\n");
    CHECK(available_memory(root).bytes == 700 * 1024);
    make_file(groups / "job/memory.max", "500000\n");
    make_file(groups / "job/memory.current", "300000\n");
    CHECK(available_memory(root).bytes == 200'000);
    make_file(groups / "job/memory.stat", "anon 100\ninactive_file 50000\nactive_file 7\n");
    CHECK(available_memory(root).bytes == 250'000);
    CHECK(available_memory(root).limit == "control group " + (groups / "job").string());
    make_file(groups / "job/memory.current", "900000\n");
    CHECK(available_memory(root).bytes == 0);
    CHECK(available_memory(root, "77").bytes == 700 * 1024);  // nothing is known of its groups
    make_file(root / "proc/77/cgroup", "0::/other\n");
    make_file(groups / "other/memory.max", "1000\n");
    make_file(groups / "other/memory.current", "100\n");
    CHECK(available_memory(root, "77").bytes == 900);

    make_file(root / "proc/self/cgroup", "12:cpu:/job\n5:memory:/old\n");
    make_file(groups / "memory/old/memory.limit_in_bytes", "1000\n");
    make_file(groups / "memory/old/memory.usage_in_bytes", "400\n");
    CHECK(available_memory(root).bytes == 600);
}
