// SPDX-License-Identifier: Apache-2.0
#include "formats/megatron/archive_draft.hpp"

#include <fmt/format.h>

#include <cstring>

namespace tpx::formats::megatron {

std::string ArchiveDraft::next_key() {
    // Counts copied contents, too, so that no number is used twice.
    return fmt::format("w{}", storages_.size() + contents_.size());
}

torch::Value ArchiveDraft::tensor(DType dtype, const Shape& shape, const std::vector<RankPart>& parts) {
    Storage storage{next_key(), dtype, parts};
    const auto elements = static_cast<std::uint64_t>(volume(shape));
    holes_[storage.key] = elements * static_cast<std::uint64_t>(itemsize(dtype));
    const torch::Value value = torch::tensor_value(document_, dtype, shape, row_major(shape), storage.key, elements);
    storages_.push_back(std::move(storage));
    return value;
}

torch::Value ArchiveDraft::scalar(float value) {
    const std::string key = next_key();
    std::string bytes(sizeof value, '\0');
    std::memcpy(bytes.data(), &value, sizeof value);
    contents_[key] = bytes;
    return torch::tensor_value(document_, DType::f32, {}, {}, key, 1);
}

void ArchiveDraft::finish(torch::Value root, const std::filesystem::path& path, int rank, Draft& draft) const {
    const torch::ArchiveFrame frame = torch::frame_archive(root, holes_, contents_, carried_);
    const auto file = static_cast<std::uint32_t>(draft.files.size());
    draft.files.push_back({path, frame.size});
    std::map<std::uint64_t, std::uint64_t> gaps;  // of storages: where each ends, by where it begins
    for (const auto& [key, hole] : frame.holes) gaps.emplace(hole.offset, hole.offset + hole.bytes);
    std::uint64_t at = 0;
    auto gap = gaps.begin();
    for (const std::string& run : frame.runs) {
        if (!run.empty()) draft.fixed.push_back({file, at, run});
        at += run.size();
        if (gap != gaps.end()) at = (gap++)->second;
    }
    for (const Storage& storage : storages_) {
        const torch::ArchiveFrame::Hole& hole = frame.holes.at(storage.key);
        for (const RankPart& part : storage.parts) {
            Piece piece{.tensor = part.tensor, .file = file, .box = part.box, .strides = part.strides, .rank = rank};
            piece.offset = hole.offset + static_cast<std::uint64_t>(part.begin * itemsize(storage.dtype));
            draft.pieces.push_back(piece);
        }
        if (hole.bytes == 0) continue;
        for (std::uint64_t crc : hole.crcs) draft.crc_slots.push_back({0, file, crc, hole.offset, hole.bytes});
    }
}

}  // namespace tpx::formats::megatron
