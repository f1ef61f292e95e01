// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "lib/core/file.hpp"
#include "lib/exec/gpu_memory.hpp"

#include <sys/types.h>

#include <cstdint>
#include <filesystem>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

namespace tpx::cli {

/// A segment that a keeper holds, with its tensors in memory of a GPU.
struct GpuSegment {
    int rank = 0;      ///< whose tensors it has
    std::string file;  ///< its name beside the manifest
    std::string bus;   ///< PCI address of the GPU
    GpuHandle handle{};
    std::uint64_t size = 0;   ///< of the memory
    std::uint64_t begin = 0;  ///< of the bytes that only the GPU has
    std::uint64_t end = 0;
};

/// What a keeper of this host holds in memory of GPUs, opened there without a copy in memory of the host. While it is
/// open, nobody takes it; and until stop_reader(), read_at() reads the tensors of its segments from the GPUs, by a
/// child process, so that this process can still start others that use CUDA.
class GpuSource {
public:
    /// `name` is "hold:NAME". Throws Error as KeeperClient does, if the keeper does not know the request, and if the
    /// memory of a GPU cannot be opened.
    explicit GpuSource(const std::string& name);
    ~GpuSource();
    GpuSource(const GpuSource&) = delete;
    GpuSource& operator=(const GpuSource&) = delete;

    /// The segments in GPU memory; empty if there are none.
    std::span<const GpuSegment> segments() const { return segments_; }

    void stop_reader();

    /// Whether a GPU, or the child process, failed to read.
    bool has_failed() const { return has_failed_; }

    /// Throws Error if the keeper has ended: what was copied from its memory until now may then have other bytes.
    void check_still_held() const;

private:
    using FileNumber = std::pair<std::uint64_t, std::uint64_t>;  // device and inode

    void start_reader();
    [[noreturn]] void serve(const Fd& requests) const;
    bool read(const Fd& file, std::uint64_t offset, std::span<std::byte> into);

    std::string name_;
    std::filesystem::path manifest_;
    FileNumber manifest_number_;
    std::vector<GpuSegment> segments_;
    std::vector<FileNumber> numbers_;  // of the segments
    std::vector<Fd> scratch_;          // a file for each segment, by which the child passes bytes
    Fd requests_;
    pid_t reader_ = 0;
    std::mutex mutex_;
    bool has_failed_ = false;
    std::optional<ReadHook> hook_;
};

/// Opens `checkpoint` if it is held in GPU memory. Returns null if it is not, or sets `reason` if it cannot be opened.
/// Throws Error as KeeperClient if there is no such keeper.
std::unique_ptr<GpuSource> open_gpu_source(const std::string& checkpoint, std::string& reason);

/// The number of the GPU at a PCI address. Throws Error if this process has no such GPU.
int gpu_at(const std::string& bus, std::span<const GpuInfo> gpu_infos);

/// A handle as hexadecimal digits, as documents contain it.
std::string hexadecimal(const GpuHandle& handle);

/// The handle that hexadecimal digits represent. Throws Error if they are malformed.
GpuHandle handle_of(const std::string& digits);

}  // namespace tpx::cli
