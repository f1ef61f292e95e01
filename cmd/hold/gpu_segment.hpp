// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "formats/encodings/held/document.hpp"
#include "lib/core/file.hpp"
#include "lib/exec/gpu_memory.hpp"

#include <cstdint>
#include <span>
#include <string>

// The segment of a rank that is in memory of a GPU and, except its tensors, in host memory.
namespace tpx::cli {

/// A tensor of a segment that a GPU copies, and where its checksum is stored.
struct DirectTensor {
    std::uint64_t offset = 0;
    std::uint64_t length = 0;
    std::uint64_t crc_at = 0;
};

/// The content of the file of a document.
std::string document_text(const Fd& file);

/// Frees the host memory that the tensors of a segment take.
void free_tensors(const Fd& segment, const formats::held::Document& document);

/// Copies a segment except the `direct` tensors, which are sorted, and zeros between them.
void upload_around(const Fd& segment, std::span<const DirectTensor> direct, GpuMemory& memory, GpuCopier& copier);

/// Stores the checksums of tensors that are in `memory` in the segment and in `memory`.
void add_gpu_checksums(const Fd& segment, std::span<const DirectTensor> tensors, const GpuMemory& memory);

}  // namespace tpx::cli
