// SPDX-License-Identifier: Apache-2.0
#include "formats/encodings/hdf5/survey.hpp"

#include "formats/encodings/hdf5/packing.hpp"
#include "lib/core/file_answers.hpp"
#include "lib/core/unexpected.hpp"

#include <fcntl.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <csignal>
#include <cstring>
#include <fstream>

namespace tpx::formats::hdf5 {
namespace {

constexpr std::string_view signature = "\x89HDF\r\n\x1a\n";

// The first byte of what the other process tells.
constexpr char went_well = 'y';
constexpr char went_wrong = 'n';

/// The address space that this process takes, in bytes.
std::uint64_t memory_in_use() {
    std::uint64_t pages = 0;
    std::ifstream{"/proc/self/statm"} >> pages;
    return pages * static_cast<std::uint64_t>(::sysconf(_SC_PAGESIZE));
}

/// Bounds what libhdf5 may do with a damaged file: seconds of computing, and memory beside what there is already.
void limit_process(std::uint64_t size) {
    constexpr std::uint64_t mebi = 1 << 20;
    const rlim_t seconds = 20 + size / mebi;
    const rlim_t memory = memory_in_use() + 1024 * mebi + 64 * size;
    const rlimit cpu{seconds, seconds}, space{memory, memory}, no_core{0, 0};
    ::setrlimit(RLIMIT_AS, &space);
    ::setrlimit(RLIMIT_CPU, &cpu);
    ::setrlimit(RLIMIT_CORE, &no_core);
    ::prctl(PR_SET_PDEATHSIG, SIGKILL);
    for (const int fatal : {SIGSEGV, SIGBUS, SIGABRT, SIGFPE, SIGILL, SIGXCPU, SIGTERM, SIGINT, SIGUSR1})
        ::signal(fatal, SIG_DFL);
}

void write_all(int fd, std::string_view bytes) {
    while (!bytes.empty()) {
        const ssize_t written = ::write(fd, bytes.data(), bytes.size());
        if (written < 0 && errno == EINTR) continue;
        if (written <= 0) ::_exit(2);
        bytes.remove_prefix(static_cast<std::size_t>(written));
    }
}

/// What the other process does; it never returns.
[[noreturn]] void tell(const Bytes& bytes, int pipe) {
    FileAnswers::forget();
    limit_process(bytes.length);
    std::string told(1, went_wrong);
    try {
        Packer packer;
        packer(survey_here(bytes));
        told[0] = went_well;
        told += packer.bytes();
    } catch (const std::exception& error) {
        told += unexpected(error).what();
    }
    write_all(pipe, told);
    ::_exit(0);
}

std::string read_all(int fd) {
    std::string all;
    std::string part(std::size_t{1} << 16, '\0');
    for (;;) {
        const ssize_t size = ::read(fd, part.data(), part.size());
        if (size < 0 && errno == EINTR) continue;
        if (size <= 0) return all;
        all.append(part, 0, static_cast<std::size_t>(size));
    }
}

std::string how_it_ended(int status) {
    if (!WIFSIGNALED(status)) return fmt::format("ended with status {}", WEXITSTATUS(status));
    const int signal = WTERMSIG(status);
    if (signal == SIGXCPU || signal == SIGKILL) return "did not come to an end";
    return fmt::format("crashed ({})", ::strsignal(signal));
}

}  // namespace

const AttributeValue* find(const Attributes& attributes, std::string_view name) {
    const auto found = std::ranges::find(attributes, name, &AttributeValue::name);
    return found == attributes.end() ? nullptr : &*found;
}

const std::string* text_of(const Attributes& attributes, std::string_view name) {
    const AttributeValue* value = find(attributes, name);
    return value != nullptr && value->texts.size() == 1 ? &value->texts[0] : nullptr;
}

std::optional<std::int64_t> number_of(const Attributes& attributes, std::string_view name) {
    const AttributeValue* value = find(attributes, name);
    if (value == nullptr || value->integers.size() != 1) return std::nullopt;
    return value->integers[0];
}

std::optional<std::uint64_t> find_signature(const Bytes& bytes) {
    std::string start(signature.size(), '\0');
    for (std::uint64_t at = 0; at + signature.size() <= bytes.length; at = at == 0 ? 512 : 2 * at) {
        if (bytes.fd != nullptr)
            read_at(*bytes.fd, bytes.offset + at, std::as_writable_bytes(std::span{start}), bytes.path);
        else
            start = bytes.memory.substr(at, signature.size());
        if (start == signature) return at;
    }
    return std::nullopt;
}

namespace {

/// What another process finds in the file. Throws Error if that process crashes.
std::string told_of(const Bytes& bytes) {
    int ends[2];
    if (::pipe2(ends, O_CLOEXEC) != 0) throw failure("no pipe: {}", std::strerror(errno));
    const Fd from{ends[0]};
    Fd to{ends[1]};
    const pid_t child = ::fork();
    if (child < 0) throw failure("no process for libhdf5: {}", std::strerror(errno));
    if (child == 0) tell(bytes, to.get());
    to = Fd{};
    std::string told = read_all(from.get());
    int status = 0;
    while (::waitpid(child, &status, 0) < 0 && errno == EINTR) {
    }
    if (told.empty() || !WIFEXITED(status) || WEXITSTATUS(status) != 0)
        throw failure("is damaged: libhdf5 {} over it", how_it_ended(status));
    return told;
}

/// The same, by way of the current FileAnswers, which cannot record what another process reads.
std::string told_or_known(const Bytes& bytes) {
    FileAnswers* answers = bytes.fd != nullptr ? FileAnswers::current() : nullptr;
    const auto file = answers != nullptr ? answers->path_of(bytes.fd->get()) : std::nullopt;
    if (!file) return told_of(bytes);
    return answers->answer(FileAnswers::Question::survey, *file, bytes.offset, bytes.length, [&] {
        if (!answers->records())
            throw failure("rank 0 did not read this file; start all processes with the same arguments");
        return told_of(bytes);
    });
}

}  // namespace

Survey survey(const Bytes& bytes) {
    return in_context([&] { return bytes.path.string(); },
                      [&] {
                          const std::string told = told_or_known(bytes);
                          if (told[0] != went_well) throw failure("{}", std::string_view{told}.substr(1));
                          Survey result;
                          Unpacker{std::string_view{told}.substr(1)}(result);
                          return result;
                      });
}

}  // namespace tpx::formats::hdf5
