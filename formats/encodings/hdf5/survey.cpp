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

// The first byte of the other process's answer.
constexpr char went_well = 'y';
constexpr char went_wrong = 'n';

/// The address space that this process uses, in bytes.
std::uint64_t memory_in_use() {
    std::uint64_t pages = 0;
    std::ifstream{"/proc/self/statm"} >> pages;
    return pages * static_cast<std::uint64_t>(::sysconf(_SC_PAGESIZE));
}

/// Limits what libhdf5 may use for a damaged file: CPU seconds, and memory on top of the memory already in use.
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

/// Runs in the other process: writes the survey of `bytes`, or an error, to `pipe`.
[[noreturn]] void send_survey(const Bytes& bytes, int pipe) {
    FileAnswers::forget();
    limit_process(bytes.length);
    std::string answer(1, went_wrong);
    try {
        Packer packer;
        packer(survey_here(bytes));
        answer[0] = went_well;
        answer += packer.bytes();
    } catch (const std::exception& error) {
        answer += unexpected(error).what();
    }
    write_all(pipe, answer);
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
    if (signal == SIGXCPU || signal == SIGKILL) return "was stopped";
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

/// The answer of another process that surveys `bytes`. Throws Error if that process crashes.
std::string survey_elsewhere(const Bytes& bytes) {
    int ends[2];
    if (::pipe2(ends, O_CLOEXEC) != 0) throw failure("no pipe: {}", std::strerror(errno));
    const Fd from{ends[0]};
    Fd to{ends[1]};
    const pid_t child = ::fork();
    if (child < 0) throw failure("no process for libhdf5: {}", std::strerror(errno));
    if (child == 0) send_survey(bytes, to.get());
    to = Fd{};
    std::string answer = read_all(from.get());
    int status = 0;
    while (::waitpid(child, &status, 0) < 0 && errno == EINTR) {
    }
    if (answer.empty() || !WIFEXITED(status) || WEXITSTATUS(status) != 0)
        throw failure("is damaged: libhdf5 {} while reading it", how_it_ended(status));
    return answer;
}

/// Same as survey_elsewhere(), but the current FileAnswers, which cannot see what another process reads, records or
/// replays the answer.
std::string recorded_survey(const Bytes& bytes) {
    FileAnswers* answers = bytes.fd != nullptr ? FileAnswers::current() : nullptr;
    const auto file = answers != nullptr ? answers->path_of(bytes.fd->get()) : std::nullopt;
    if (!file) return survey_elsewhere(bytes);
    return answers->answer(FileAnswers::Question::survey, *file, bytes.offset, bytes.length, [&] {
        if (!answers->records())
            throw failure("rank 0 did not read this file; start all processes with the same arguments");
        return survey_elsewhere(bytes);
    });
}

}  // namespace

Survey survey(const Bytes& bytes) {
    return in_context([&] { return bytes.path.string(); },
                      [&] {
                          const std::string answer = recorded_survey(bytes);
                          if (answer[0] != went_well) throw failure("{}", std::string_view{answer}.substr(1));
                          Survey result;
                          Unpacker{std::string_view{answer}.substr(1)}(result);
                          return result;
                      });
}

}  // namespace tpx::formats::hdf5
