// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "formats/encodings/torch/value.hpp"
#include "formats/encodings/torch/zip.hpp"
#include "lib/core/box.hpp"
#include "lib/core/dtype.hpp"

#include <cstdint>
#include <filesystem>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace tpx::torch {

/// Where the elements of a torch.save file's storage lie.
struct Storage {
    std::uint64_t offset = 0;  ///< from the start of the file
    std::uint64_t bytes = 0;
    bool compressed = false;
    std::uint64_t stored_bytes = 0;  ///< of the deflate stream, when compressed
};

/// A tensor of a torch.save file. Its element x lies at `offset` + itemsize * sum of x[k] * strides[k]; all of them lie
/// inside its storage, which lies inside the file.
struct StoredTensor {
    DType dtype = DType::f32;
    Shape shape;
    Strides strides;                   ///< in elements, none negative
    std::uint64_t offset = 0;          ///< of element 0, in bytes from the start of the file
    std::uint64_t storage_offset = 0;  ///< of element 0, in elements from the start of the storage
    std::string storage;               ///< key: tensors with equal keys share bytes
    bool compressed = false;           ///< the storage is deflated: `offset` means nothing
    bool requires_grad = false;
    bool parameter = false;
    bool conjugated = false;  ///< the stored imaginary parts are the negated true ones
    bool negated = false;     ///< the stored values are the negated true ones
};

struct NamedTensor {
    std::string name;  ///< keys and indices on the way to it, joined with '.'
    StoredTensor tensor;
};

struct NamedValue {
    std::string name;
    Value value;
};

/// A file that torch.save wrote (zip archive, or legacy stream), or an archive inside a file: its object tree, and
/// where its tensors' bytes are. Opening it reads no payload.
class Archive {
public:
    /// Throws Error naming the file when it is no such archive, is malformed, lacks a record, or has one that is
    /// shorter than its storage.
    static Archive open(const std::filesystem::path& path);
    /// The same for an archive at `range`, for instance a blob of a .distcp file.
    static Archive open(const FileRange& range);

    Value root() const { return document_.root(); }
    const Document& document() const { return document_; }

    /// Whether it is the stream that torch.save wrote before archives.
    bool is_stream() const { return !zip_; }

    /// True when elements are stored most significant byte first; nothing that tpx writes is.
    bool big_endian() const { return big_endian_; }

    /// `value` as a tensor, when it is one; parameters and subclass wrappers are looked through. Throws Error when it
    /// is a tensor that reaches beyond its storage, or of a kind that cannot be read (sparse, on the meta device).
    std::optional<StoredTensor> tensor(Value value) const;

    /// Whether `value` is a tensor, readable or not.
    static bool is_tensor(Value value);

    /// All tensors of the tree in its order, those inside objects too. A tensor met twice is listed twice; a dict or
    /// list met twice is not.
    std::vector<NamedTensor> tensors() const;

    /// The nodes of the tree that tensors() lists, in the same order.
    std::vector<NamedValue> tensor_values() const;

    /// Where a storage lies; null when there is none of this key.
    const Storage* find_storage(std::string_view key) const {
        const auto found = storages_.find(key);
        return found == storages_.end() ? nullptr : &found->second;
    }

    /// The bytes of a storage as they are. Throws Error when there is no such storage.
    std::string storage(std::string_view key) const;

    /// The logical elements of `tensor` in C order, little-endian, conjugated and negated as it says. For small
    /// tensors: holds the whole storage.
    std::string elements(const StoredTensor& tensor) const;

    /// Throws Error when some record has not the CRC-32 that the archive tells; does nothing for legacy streams.
    void check_crcs() const;

private:
    friend class ArchiveReader;
    friend class LegacyReader;

    std::shared_ptr<const Fd> owned_;  ///< by open(path); a range has its own owner
    FileRange range_;
    Document document_;
    std::optional<Zip> zip_;
    std::map<std::string, Storage, std::less<>> storages_;
    bool big_endian_ = false;
};

/// The one tensor of the archive at `range`, as DCP and Megatron store each chunk. A small archive is read in one go,
/// a large one with one read at each end. Throws Error when it holds something else than a tensor, or one that is
/// compressed, big-endian, conjugated or negated.
StoredTensor read_tensor_blob(const FileRange& range);

/// The class "module.name" of a tensor of an archive that is of a class of its own; empty for torch's classes.
std::string subclass_of(Value value);

}  // namespace tpx::torch
