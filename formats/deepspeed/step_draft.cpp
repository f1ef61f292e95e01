// SPDX-License-Identifier: Apache-2.0
#include "formats/deepspeed/step_draft.hpp"
#include "formats/torch/storage.hpp"
#include "lib/core/error.hpp"
#include "lib/core/file.hpp"

#include <algorithm>

namespace tpx::formats::deepspeed {

std::string NewKeys::next() {
    for (;;) {
        std::string key = std::to_string(number_++);
        if (from_ == nullptr || from_->find_storage(key) == nullptr) return key;
    }
}

StepDraft::StepDraft(const Content& content) {
    draft_.tensors = content.tensors;
    for (std::uint32_t t = 0; t < content.tensors.size(); ++t) numbers_.emplace(content.tensors[t].name, t);
}

std::uint32_t StepDraft::tensor(const std::string& name) const {
    const auto found = numbers_.find(name);
    if (found == numbers_.end()) throw failure("tensor '{}': is missing from the source", name);
    return found->second;
}

std::uint32_t StepDraft::add_file(const std::filesystem::path& path, std::uint64_t size) {
    draft_.files.push_back({path, size});
    return static_cast<std::uint32_t>(draft_.files.size() - 1);
}

StepDraft::Placed StepDraft::add(const std::filesystem::path& path, torch::Value root, const torch::Archive* from,
                                 const std::filesystem::path& source) {
    torch::Holes holes;
    for (const torch::StorageId& id : torch::storages_of(root)) {
        if (id.location == "meta") continue;
        std::uint64_t& bytes = holes[std::string{id.key}];
        bytes = std::max(bytes, id.bytes);
    }
    const torch::ArchiveFrame frame = torch::frame_archive(root, holes);
    Placed placed{.file = add_file(path, frame.size)};
    std::vector<std::uint64_t> starts{0};
    for (const auto& [key, hole] : frame.holes) starts.push_back(hole.offset + hole.bytes);
    std::ranges::sort(starts);
    for (std::size_t k = 0; k < frame.runs.size(); ++k) draft_.fixed.push_back({placed.file, starts[k], frame.runs[k]});
    for (const auto& [key, storage] : frame.holes) {
        const torch::Storage* known = from == nullptr ? nullptr : from->find_storage(key);
        if (known == nullptr) {
            placed.storages.emplace(key, storage);
        } else if (known->compressed) {
            draft_.fixed.push_back({placed.file, storage.offset, from->storage(key).substr(0, storage.bytes)});
        } else {
            copy_bytes(placed.file, storage.offset, source, known->offset, storage.bytes);
        }
    }
    return placed;
}

void StepDraft::copy_bytes(std::uint32_t file, std::uint64_t offset, const std::filesystem::path& source,
                           std::uint64_t from, std::uint64_t length) {
    if (length > 0) draft_.copies.push_back({source, from, length, file, offset});
}

void StepDraft::add_copy(const std::filesystem::path& path, const std::filesystem::path& source) {
    const std::uint64_t size = size_of_file(source);
    copy_bytes(add_file(path, size), 0, source, 0, size);
}

void StepDraft::add_text(const std::filesystem::path& path, std::string text) {
    const std::uint32_t file = add_file(path, text.size());
    draft_.fixed.push_back({file, 0, std::move(text)});
}

void StepDraft::add_crcs(const torch::ArchiveFrame::Hole& storage) {
    const auto piece = static_cast<std::uint32_t>(draft_.pieces.size() - 1);
    for (const std::uint64_t crc : storage.crcs) draft_.crc_slots.push_back({piece, draft_.pieces[piece].file, crc});
}

}  // namespace tpx::formats::deepspeed
