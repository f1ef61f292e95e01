// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "lib/change/moves.hpp"
#include "lib/core/catalogue.hpp"
#include "lib/exec/adapter_merger.hpp"
#include "lib/exec/decode.hpp"
#include "lib/exec/dequantize.hpp"
#include "lib/exec/exec_options.hpp"
#include "lib/exec/ggml_blocks.hpp"
#include "lib/exec/mpi.hpp"
#include "lib/exec/open_files.hpp"
#include "lib/exec/quantize.hpp"

#include <optional>
#include <utility>

namespace tpx {

/// Files to read from, some of which are decoded while they are read. For one thread.
class SourceFiles {
public:
    /// `files` must outlive this; `digests`, if not null, gets the stored bytes that are read.
    explicit SourceFiles(std::span<const SourceFile> files, ReadDigests* digests = nullptr);

    /// Fills `into` with the bytes from `offset` on. Throws Error "FILE: cause".
    void read(std::uint32_t file, std::uint64_t offset, std::span<std::byte> into) {
        if (!files_[file].coding) return read_stored(file, offset, into);
        read_decoded(file, offset, into);
    }

    /// Whether the bytes of a file are read as they are stored.
    bool is_stored(std::uint32_t file) const { return !files_[file].coding; }

    /// The descriptor of a file that is read as it is stored; valid until the next call. Throws Error if the file
    /// cannot be opened.
    const Fd& stored(std::uint32_t file) { return open_.get(file); }

private:
    void read_stored(std::uint32_t file, std::uint64_t offset, std::span<std::byte> into);
    void read_decoded(std::uint32_t file, std::uint64_t offset, std::span<std::byte> into);
    void decode(std::uint32_t file, std::uint64_t chunk, std::span<std::byte> into);

    std::span<const SourceFile> files_;
    std::vector<std::filesystem::path> paths_;
    OpenFiles open_;
    ReadDigests* digests_;
    std::vector<std::optional<std::uint32_t>> numbers_;  // file numbers in digests_; empty without it
    Decoder decoder_;
    Dequantizer dequantizer_;
    BlockReader block_reader_;
    AdapterMerger merger_;
    Quantizer quantizer_;
    std::vector<std::byte> chunk_;  // the decoded chunk that held_ names
    std::optional<std::pair<std::uint32_t, std::uint64_t>> held_;
};

/// Source files whose bytes are read as they are stored.
std::vector<SourceFile> raw_files(std::span<const std::filesystem::path> paths);

/// By file: whether each chunk should be decoded once, not part by part.
std::vector<bool> decoded(std::span<const SourceFile> files);

/// The options `wanted`, with fewer threads if needed to decode chunks of `files` within the memory; and the memory
/// that each thread may use in addition to its decoder. Throws Error if even one thread needs too much.
struct FittedOptions {
    ExecOptions options;
    std::uint64_t memory = 0;
};
FittedOptions fit_decoding_memory(const ExecOptions& wanted, std::span<const SourceFile> files);

/// Checks, for this rank's share of the files, that no piece marked in `wanted` extends past the end of its file.
/// Throws Error "FILE: tensor 'NAME': ...".
void check_lengths(const mpi::Comm& comm, const Side& side, const std::vector<bool>& wanted,
                   std::span<const SourceFile> files);

}  // namespace tpx
