// SPDX-License-Identifier: Apache-2.0
#include "cmd/hold/held_snapshot.hpp"

#include "formats/encodings/held/document.hpp"
#include "lib/core/error.hpp"
#include "lib/core/memory_file.hpp"
#include "lib/core/units.hpp"
#include "lib/exec/gpu_memory.hpp"

#include <algorithm>
#include <span>
#include <utility>

namespace tpx::cli {
namespace {

/// An empty file in host memory for the segment of a part. Throws Error if it does not fit.
Fd new_copy_of(const HeldPart& part) {
    const AvailableMemory room = available_memory();
    const std::uint64_t size = part.gpu->size();
    if (size > room.bytes)
        throw failure("rank {}: {} do not fit into host memory to be read: {} are free ({})", part.rank,
                      format_size(size), format_size(room.bytes), room.limit);
    return make_memory_file(fmt::format("tpx-rank-{:05}.bin", part.rank), size);
}

}  // namespace

HeldSnapshot::HeldSnapshot(std::vector<std::shared_ptr<const HeldPart>> parts, std::string save, std::string config,
                           bool copies_gpus)
    : parts_{std::move(parts)}, save_{std::move(save)}, config_{std::move(config)}, copies_gpus_{copies_gpus} {
    if (parts_.empty()) throw failure("no rank is held");
}

bool HeldSnapshot::has(const std::shared_ptr<const HeldPart>& part) const {
    return std::ranges::find(parts_, part) != parts_.end();
}

void HeldSnapshot::step() {
    constexpr std::uint64_t most = std::uint64_t{1} << 30;  // less than a second
    while (part_ < parts_.size() && !(copies_gpus_ && parts_[part_]->gpu)) ++part_;
    if (part_ < parts_.size()) {
        const HeldPart& part = *parts_[part_];
        if (copied_ == 0) copies_.push_back(new_copy_of(part));
        const std::uint64_t end = std::min(part.gpu->size(), copied_ + most);
        GpuCopier{part.gpu->gpu()}.download(*part.gpu, copied_, end, copies_.back());
        const bool is_whole = end == part.gpu->size();
        copied_ = is_whole ? 0 : end;
        if (is_whole) ++part_;
        return;
    }
    formats::held::Manifest manifest;
    auto copy = copies_.begin();
    for (const auto& part : parts_) {
        const Fd& segment = part->gpu && copies_gpus_ ? *copy++ : part->segment;
        const Fd& document = part->gpu ? part->host_document : part->document;
        manifest.parts.push_back({std::to_string(document.get()), std::to_string(segment.get()), {}});
        if (part->gpu && !copies_gpus_)
            manifest.parts.back().gpu = formats::held::GpuPlace{part->gpu_place.first, part->gpu_place.second};
    }
    manifest.save = save_;
    if (!config_.empty()) manifest.config = config_;
    const std::string text = write_manifest(manifest);
    Fd file = make_memory_file("tpx-manifest", text.size());
    write_at(file, 0, std::as_bytes(std::span{text}), "manifest");
    manifest_ = std::move(file);
}

}  // namespace tpx::cli
