// SPDX-License-Identifier: Apache-2.0
#include "cmd/hold/gpu_segment.hpp"

#include "lib/core/crc.hpp"
#include "lib/core/error.hpp"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <vector>

namespace tpx::cli {

std::string document_text(const Fd& file) {
    std::string text(static_cast<std::size_t>(::lseek(file.get(), 0, SEEK_END)), '\0');
    read_at(file, 0, std::as_writable_bytes(std::span{text}), "document");
    return text;
}

void free_tensors(const Fd& segment, const formats::held::Document& document) {
    constexpr std::uint64_t page = 4096;
    std::uint64_t begin = document.size, end = 0;
    for (const formats::held::HeldTensor& tensor : document.tensors) {
        begin = std::min(begin, tensor.offset);
        end = std::max(end, tensor.offset + payload(tensor));
    }
    for (const formats::held::HeldObject& object : document.objects)
        if (object.length != 0 && object.offset >= begin) end = std::min(end, object.offset);
    begin = (begin + page - 1) / page * page;
    end = end / page * page;
    if (begin < end && ::fallocate(segment.get(), FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, static_cast<off_t>(begin),
                                   static_cast<off_t>(end - begin)) != 0)
        throw failure("cannot free host memory: fallocate: {}", std::strerror(errno));
}

void upload_around(const Fd& segment, std::span<const DirectTensor> direct, GpuMemory& memory, GpuCopier& copier) {
    constexpr std::uint64_t alignment = 64;  // of tensors, so that shorter gaps have none
    memory.clear();
    std::uint64_t done = 0;
    for (const DirectTensor& tensor : direct) {
        if (done == 0 || tensor.offset - done >= alignment) copier.upload(segment, done, tensor.offset, memory);
        done = tensor.offset + tensor.length;
    }
    copier.upload(segment, done, memory.size(), memory);
}

void add_gpu_checksums(const Fd& segment, std::span<const DirectTensor> tensors, const GpuMemory& memory) {
    if (tensors.empty()) return;
    GpuCopier copier{memory.gpu()};
    std::vector<GpuCopier::Bytes> runs;
    for (const DirectTensor& tensor : tensors) runs.push_back({memory.data() + tensor.offset, tensor.length});
    const std::vector<std::uint32_t> crcs = copier.crcs(runs);
    std::uint64_t begin = memory.size(), end = 0;
    for (std::size_t k = 0; k < tensors.size(); ++k) {
        const std::uint32_t crc = zip_crc(crcs[k], tensors[k].length);
        write_at(segment, tensors[k].crc_at, std::as_bytes(std::span{&crc, 1}), "segment");
        begin = std::min(begin, tensors[k].crc_at);
        end = std::max(end, tensors[k].crc_at + sizeof crc);
    }
    copier.upload(segment, begin, end, memory);
}

}  // namespace tpx::cli
