// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "formats/encodings/held/document.hpp"
#include "lib/core/file.hpp"
#include "lib/exec/gpu_memory.hpp"

#include <cstdint>
#include <span>
#include <string>

// A rank's segment in GPU memory, of which host memory contains everything but the tensors.
namespace tpx::cli {

/// A tensor of a segment that a GPU copies, and where its checksum is stored.
struct DirectTensor {
    std::uint64_t offset = 0;
    std::uint64_t length = 0;
    std::uint64_t crc_at = 0;
};

/// The text of a document's file.
std::string document_text(const Fd& file);

/// Frees the host memory that the tensors of a segment take.
void free_tensors(const Fd& segment, const formats::held::Document& document);

/// Copies a segment to `memory`, except the `direct` tensors, which are sorted by offset. Short gaps between these are
/// alignment and become zeros.
void upload_around(const Fd& segment, std::span<const DirectTensor> direct, GpuMemory& memory, GpuCopier& copier);

/// Computes the checksums of `tensors` in `memory`, and stores them both in `memory` and in the segment.
void add_gpu_checksums(const Fd& segment, std::span<const DirectTensor> tensors, const GpuMemory& memory);

}  // namespace tpx::cli
