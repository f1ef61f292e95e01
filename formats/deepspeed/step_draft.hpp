// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "formats/checkpoint.hpp"
#include "formats/deepspeed/optimizer_tree.hpp"
#include "formats/encodings/torch/archive.hpp"
#include "formats/encodings/torch/archive_writer.hpp"

#include <filesystem>
#include <map>
#include <string>

namespace tpx::formats::deepspeed {

/// Collects the files of a new checkpoint. Paths are relative to its folder.
class StepDraft {
public:
    explicit StepDraft(const Content& content);

    /// The number of a tensor in the content; throws Error if it has none of this name.
    std::uint32_t tensor(const std::string& name) const;
    const Tensor& operator[](std::uint32_t tensor) const { return draft_.tensors[tensor]; }
    bool has(const std::string& name) const { return numbers_.contains(name); }

    /// The kinds of per-element state that the content has for a parameter, with their types; "fp32" is the master
    /// weight.
    FlatStates states(const std::string& parameter) const;

    /// A file, and the places of its new storages by key.
    struct Placed {
        std::uint32_t file = 0;
        std::map<std::string, torch::ArchiveFrame::Hole, std::less<>> storages;
    };

    /// Adds an archive of `root`. Storages in `small` get those bytes. Storages that exist in `from`, the archive in
    /// file `source`, are copied. All others are filled by pieces, and are zero where there are none.
    Placed add(const std::filesystem::path& path, torch::Value root, const torch::Archive* from,
               const std::filesystem::path& source, const std::map<std::string, std::string>& small = {});
    void add_copy(const std::filesystem::path& path, const std::filesystem::path& source);
    void add_text(const std::filesystem::path& path, std::string text);

    /// Copies `length` bytes at `from` in `source` to `offset` in a file.
    void copy_bytes(std::uint32_t file, std::uint64_t offset, const std::filesystem::path& source, std::uint64_t from,
                    std::uint64_t length);

    std::vector<Piece>& pieces() { return draft_.pieces; }

    /// The draft, without tensors that have no pieces: weights that are copied with their files, and scalars. Throws
    /// Error for optimizer state without pieces.
    Draft finish();

private:
    void add_crc(std::uint32_t file, const torch::ArchiveFrame::Hole& storage, std::uint32_t crc);
    bool is_scalar(const std::string& name) const;
    std::uint32_t add_file(const std::filesystem::path& path, std::uint64_t size);

    Draft draft_;
    std::map<std::string, std::uint32_t, std::less<>> numbers_;
};

/// Generates unique keys for storages, none of which `from` has.
class NewKeys {
public:
    explicit NewKeys(const torch::Archive* from) : from_{from} {}
    std::string next();

private:
    const torch::Archive* from_;
    std::size_t number_ = 0;
};

}  // namespace tpx::formats::deepspeed
