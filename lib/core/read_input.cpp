// SPDX-License-Identifier: Apache-2.0
#include "lib/core/read_input.hpp"

#include "lib/core/error.hpp"
#include "lib/core/file.hpp"
#include "lib/core/path.hpp"

#include <fcntl.h>
#include <unistd.h>

#include <cerrno>

namespace tpx {
namespace {

std::string read_stream(int fd, const std::string& name, std::uint64_t most) {
    constexpr std::size_t step = std::size_t{1} << 20;
    std::string bytes;
    std::size_t used = 0;
    while (true) {
        bytes.resize(used + step);
        const ssize_t count = ::read(fd, bytes.data() + used, step);
        if (count < 0 && errno == EINTR) continue;
        if (count < 0) throw system_failure(name, errno);
        used += static_cast<std::size_t>(count);
        if (used > most) throw failure("{}: more than {} bytes", name, most);
        if (count == 0) break;
    }
    bytes.resize(used);
    return bytes;
}

}  // namespace

std::string read_input(const std::string& path, std::uint64_t most) {
    if (path == "-") return read_stream(STDIN_FILENO, input_name(path), most);
    if (path_kind(path) != PathKind::other) return read_file(path, most);
    const Fd fd{::open(path.c_str(), O_RDONLY | O_CLOEXEC)};
    if (!fd) throw system_failure(path, errno);
    return read_stream(fd.get(), path, most);
}

std::string input_name(const std::string& path) { return path == "-" ? "standard input" : path; }

}  // namespace tpx
