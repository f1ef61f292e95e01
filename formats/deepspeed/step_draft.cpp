// SPDX-License-Identifier: Apache-2.0
#include "formats/deepspeed/step_draft.hpp"

#include "formats/encodings/torch/storage.hpp"
#include "formats/encodings/torch/zip.hpp"
#include "formats/state/roles.hpp"
#include "lib/core/error.hpp"
#include "lib/core/file.hpp"

#include <fcntl.h>

#include <algorithm>
#include <optional>
#include <span>

namespace tpx::formats::deepspeed {
namespace {

/// The CRC-32s that an archive records for its storages; 0 if unknown, if the path is empty or if the file has
/// torch.save's legacy format.
class SourceCrcs {
public:
    explicit SourceCrcs(const std::filesystem::path& path) {
        if (path.empty()) return;
        fd_ = open_file(path, O_RDONLY);
        std::string start(2, '\0');
        read_at(fd_, 0, std::as_writable_bytes(std::span{start}), path);
        if (start == "PK") zip_.emplace(torch::FileRange{&fd_, path, 0, size_of_file(path)});
    }
    std::uint32_t operator()(const std::string& key) const {
        const torch::ZipEntry* entry = zip_ ? zip_->find("data/" + key) : nullptr;
        return entry == nullptr ? 0 : entry->crc;
    }

private:
    Fd fd_;
    std::optional<torch::Zip> zip_;
};

}  // namespace

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

bool StepDraft::is_scalar(const std::string& name) const {
    if (name.ends_with("/step")) return true;
    const std::string_view parameter = parameter_of(name);
    const auto master = numbers_.find(std::string{parameter} + "/fp32");
    const auto own = numbers_.find(name);
    return draft_.tensors[own->second].shape.empty() && master != numbers_.end() &&
           !draft_.tensors[master->second].shape.empty();
}

FlatStates StepDraft::states(const std::string& parameter) const {
    FlatStates found;
    const std::string prefix = parameter + "/";
    for (auto next = numbers_.lower_bound(prefix); next != numbers_.end() && next->first.starts_with(prefix); ++next) {
        const std::string state = next->first.substr(prefix.size());
        if (state.find('/') == state.npos && !is_scalar(draft_.tensors[next->second].name))
            found.emplace_back(state, draft_.tensors[next->second].dtype);
    }
    return found;
}

StepDraft::Placed StepDraft::add(const std::filesystem::path& path, torch::Value root, const torch::Archive* from,
                                 const std::filesystem::path& source, const std::map<std::string, std::string>& small) {
    torch::Holes holes;
    for (const torch::StorageId& id : torch::storages_of(root)) {
        if (id.location == "meta" || small.contains(std::string{id.key})) continue;
        std::uint64_t& bytes = holes[std::string{id.key}];
        bytes = std::max(bytes, id.bytes);
    }
    const torch::ArchiveFrame frame = torch::frame_archive(root, holes, {small.begin(), small.end()});
    Placed placed{.file = add_file(path, frame.size)};
    const SourceCrcs crcs{from == nullptr ? std::filesystem::path{} : source};
    std::vector<std::uint64_t> starts{0};
    for (const auto& [key, hole] : frame.holes) starts.push_back(hole.offset + hole.bytes);
    std::ranges::sort(starts);
    for (std::size_t k = 0; k < frame.runs.size(); ++k) draft_.fixed.push_back({placed.file, starts[k], frame.runs[k]});
    for (const auto& [key, storage] : frame.holes) {
        const torch::Storage* known = from == nullptr ? nullptr : from->find_storage(key);
        if (known == nullptr) {
            placed.storages.emplace(key, storage);
            for (const std::uint64_t crc : storage.crcs)
                if (storage.bytes > 0) draft_.crc_slots.push_back({0, placed.file, crc, storage.offset, storage.bytes});
        } else if (known->compressed) {
            draft_.fixed.push_back({placed.file, storage.offset, from->storage(key).substr(0, storage.bytes)});
        } else {
            copy_bytes(placed.file, storage.offset, source, known->offset, storage.bytes);
            if (storage.bytes == known->bytes) add_crc(placed.file, storage, crcs(key));
        }
    }
    return placed;
}

/// Writes a known CRC-32 at its places in a zip archive, little-endian.
void StepDraft::add_crc(std::uint32_t file, const torch::ArchiveFrame::Hole& storage, std::uint32_t crc) {
    std::string bytes;
    for (int shift = 0; shift < 32; shift += 8) bytes.push_back(static_cast<char>(crc >> shift & 0xff));
    for (const std::uint64_t at : storage.crcs)
        if (at > 0) draft_.fixed.push_back({file, at, bytes});
}

void StepDraft::copy_bytes(std::uint32_t file, std::uint64_t offset, const std::filesystem::path& source,
                           std::uint64_t from, std::uint64_t length) {
    if (length > 0) draft_.copies.push_back({source, from, length, file, offset});
}

void StepDraft::add_copy(const std::filesystem::path& path, const std::filesystem::path& source) {
    const std::uint64_t size = size_of_file(source);
    copy_bytes(add_file(path, size), 0, source, 0, size);
}

Draft StepDraft::finish() {
    std::vector<bool> used(draft_.tensors.size(), false);
    for (const Piece& piece : draft_.pieces) used[piece.tensor] = true;
    std::vector<std::uint32_t> number(draft_.tensors.size());
    std::vector<Tensor> kept;
    for (std::size_t t = 0; t < used.size(); ++t) {
        const Tensor& tensor = draft_.tensors[t];
        if (!used[t] && tensor.name.find('/') != tensor.name.npos && volume(tensor.shape) > 0 &&
            !is_scalar(tensor.name))
            throw failure("tensor '{}': has no place among the partitions", tensor.name);
        number[t] = static_cast<std::uint32_t>(kept.size());
        if (used[t]) kept.push_back(tensor);
    }
    draft_.tensors = std::move(kept);
    for (Piece& piece : draft_.pieces) piece.tensor = number[piece.tensor];
    return std::move(draft_);
}

void StepDraft::add_text(const std::filesystem::path& path, std::string text) {
    const std::uint32_t file = add_file(path, text.size());
    draft_.fixed.push_back({file, 0, std::move(text)});
}

}  // namespace tpx::formats::deepspeed
