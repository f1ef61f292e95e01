// SPDX-License-Identifier: Apache-2.0
#include "lib/exec/measure.hpp"

#include "lib/core/clock.hpp"
#include "lib/core/error.hpp"
#include "lib/core/file.hpp"
#include "lib/exec/window.hpp"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cstring>
#include <future>
#include <system_error>

namespace tpx {
namespace {

using Clock = std::chrono::steady_clock;

constexpr std::size_t disk_chunk = std::size_t{8} << 20;

// Memory like the buffers of tpx reshard, filled with numbers, because storage might skip zeros.
char* fill(Arena& arena, std::size_t size) {
    char* bytes = reinterpret_cast<char*>(arena.take(size, 0));
    for (std::size_t i = 0; i < size; ++i) bytes[i] = static_cast<char>(i * 2654435761u >> 13);
    return bytes;
}

// A new file with an unpredictable name, so that no planted link can redirect the writes; removed in the end.
class ScratchFile {
public:
    explicit ScratchFile(const std::filesystem::path& folder) {
        std::string name = (folder / ".tpx-profile-XXXXXX").string();
        const Fd fd{::mkostemp(name.data(), O_CLOEXEC)};
        if (!fd) throw failure("{}: cannot create a file: {}", folder.string(), std::generic_category().message(errno));
        path_ = name;
    }
    ScratchFile(const ScratchFile&) = delete;
    ~ScratchFile() { ::unlink(path_.c_str()); }

    const std::filesystem::path& path() const { return path_; }

private:
    std::filesystem::path path_;
};

// One pass over an existing file, chunk by chunk: how the file is opened, and whether the pass writes and syncs it.
struct Pass {
    std::filesystem::path path;
    int flags;
    bool writes;
    bool syncs;
};

// Runs a pass for about `seconds`; returns the number of bytes done, at most `bytes` and at least a chunk. Adds to
// `rates` a sample for every four chunks, or one for the whole pass if it syncs or has fewer chunks.
std::uint64_t run_pass(const Pass& pass, char* buffer, std::uint64_t bytes, double seconds,
                       std::vector<double>& rates) {
    const Fd fd = open_file(pass.path, pass.flags | O_NOFOLLOW);
    if (!pass.writes) posix_fadvise(fd.get(), 0, 0, POSIX_FADV_DONTNEED);
    std::uint64_t done = 0, marked = 0;
    const Clock::time_point start = Clock::now();
    Clock::time_point mark = start;
    while (done < bytes && (done == 0 || seconds_since(start) < seconds)) {
        if (pass.writes)
            write_at(fd, done, std::as_bytes(std::span{buffer, disk_chunk}), pass.path);
        else
            read_at(fd, done, std::as_writable_bytes(std::span{buffer, disk_chunk}), pass.path);
        done += disk_chunk;
        if (pass.syncs || done - marked < 4 * disk_chunk) continue;
        rates.push_back(static_cast<double>(done - marked) / seconds_since(mark));
        marked = done;
        mark = Clock::now();
    }
    if (pass.syncs) {
        if (fdatasync(fd.get()) != 0)
            throw failure("{}: {}", pass.path.string(), std::generic_category().message(errno));
        rates.push_back(static_cast<double>(done) / seconds_since(start));
    } else if (marked == 0) {  // too slow for a whole run
        rates.push_back(static_cast<double>(done) / seconds_since(start));
    }
    return done;
}

// Reads one file and writes another at once, several times; bytes of both together per second.
MeasuredValue measure_both(const Pass& read, const Pass& write, std::uint64_t bytes, double seconds) {
    Arena arena{2 * disk_chunk};
    char *from = fill(arena, disk_chunk), *to = fill(arena, disk_chunk);
    std::vector<double> rates, unused_reads, unused_writes;
    for (int round = 0; round < 3; ++round) {
        const Clock::time_point start = Clock::now();
        std::future<std::uint64_t> reading =
            std::async(std::launch::async, [&] { return run_pass(read, to, bytes, seconds / 3, unused_reads); });
        const std::uint64_t written = run_pass(write, from, bytes, seconds / 3, unused_writes);
        rates.push_back(static_cast<double>(written + reading.get()) / seconds_since(start));
    }
    return summarize(rates);
}

// Whether the file system supports direct I/O.
bool takes_direct(const std::filesystem::path& path) {
    return static_cast<bool>(Fd{::open(path.c_str(), O_WRONLY | O_DIRECT | O_NOFOLLOW | O_CLOEXEC)});
}

}  // namespace

MeasuredValue measure_memory_copy(double seconds) {
    constexpr std::size_t size = std::size_t{64} << 20;
    Arena arena{2 * size};
    char *from = fill(arena, size), *to = fill(arena, size);
    std::vector<double> rates;
    const Clock::time_point start = Clock::now();
    do {
        const Clock::time_point begin = Clock::now();
        std::memcpy(to, from, size);
        rates.push_back(static_cast<double>(size) / seconds_since(begin));
        from[rates.size() % size] = to[0];  // so that the compiler does not merge copies
    } while (rates.size() < 5 || seconds_since(start) < seconds);
    rates.erase(rates.begin());
    return summarize(rates);
}

DiskRates measure_disk(const std::filesystem::path& folder, double seconds, std::uint64_t most) {
    const ScratchFile scratch{folder}, other{folder};
    const std::filesystem::path& path = scratch.path();
    Arena arena{disk_chunk};
    char* buffer = fill(arena, disk_chunk);
    most = std::max(most / 2 / disk_chunk * disk_chunk, std::uint64_t{disk_chunk});
    DiskRates rates;
    const double slice = seconds / 5;
    std::vector<double> writes, reads;
    std::uint64_t written = 0;
    for (int round = 0; round < 3; ++round)  // a pass that ends with a sync has one sample
        written = run_pass({path, O_WRONLY | O_TRUNC, true, true}, buffer, most, slice / 3, writes);
    run_pass({path, O_RDONLY, false, false}, buffer, written, slice, reads);
    rates.buffered_write = summarize(writes);
    rates.buffered_read = summarize(reads);
    const int direct = takes_direct(path) ? O_DIRECT : 0;
    if (direct != 0) {
        writes.clear();
        reads.clear();
        written = run_pass({path, O_WRONLY | O_TRUNC | O_DIRECT, true, false}, buffer, most, slice, writes);
        run_pass({path, O_RDONLY | O_DIRECT, false, false}, buffer, written, slice, reads);
        rates.direct_write = summarize(writes);
        rates.direct_read = summarize(reads);
    }
    rates.both = measure_both({path, O_RDONLY | direct, false, false},
                              {other.path(), O_WRONLY | O_TRUNC | direct, true, direct == 0}, written, slice);
    return rates;
}

}  // namespace tpx
