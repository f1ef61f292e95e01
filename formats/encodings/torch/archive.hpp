// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "formats/encodings/torch/value.hpp"
#include "formats/encodings/torch/zip.hpp"
#include "lib/core/box.hpp"
#include "lib/core/dtype.hpp"

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace tpx::torch {

/// Where the elements of a storage are in a torch.save file.
struct Storage {
    std::uint64_t offset = 0;  ///< from the start of the file
    std::uint64_t bytes = 0;
    bool compressed = false;
    std::uint64_t stored_bytes = 0;  ///< of the deflate stream, when compressed
};

/// A tensor of a torch.save file. Its element x is at `offset` + itemsize * sum of x[k] * strides[k]. All elements are
/// inside the tensor's storage, which is inside the file.
struct StoredTensor {
    DType dtype = DType::f32;
    Shape shape;
    Strides strides;                   ///< in elements, none negative
    std::uint64_t offset = 0;          ///< of element 0, in bytes from the start of the file
    std::uint64_t storage_offset = 0;  ///< of element 0, in elements from the start of the storage
    std::string storage;               ///< key: tensors with equal keys share bytes
    bool compressed = false;           ///< the storage is deflated: `offset` is meaningless
    bool requires_grad = false;
    bool parameter = false;
    bool conjugated = false;  ///< imaginary parts are stored negated
    bool negated = false;     ///< all values are stored negated
};

struct NamedTensor {
    std::string name;  ///< keys and indices that lead to the tensor, joined with '.'
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
    /// Throws Error naming the file if it is not such an archive, is malformed, lacks a record, or has a record that is
    /// shorter than its storage.
    static Archive open(const std::filesystem::path& path);
    /// The same for an archive at `range`, for instance a blob of a .distcp file.
    static Archive open(const FileRange& range);

    Value root() const { return document_.root(); }
    const Document& document() const { return document_; }

    /// Whether it is a legacy stream, which torch.save wrote before zip archives.
    bool is_stream() const { return !zip_; }

    /// True if elements are stored with the most significant byte first. tpx never writes such archives.
    bool big_endian() const { return big_endian_; }

    /// `value` as a tensor, if it is one; parameters and subclasses are unwrapped. Throws Error for a tensor that
    /// extends beyond its storage, or whose kind cannot be read (sparse, on the meta device).
    std::optional<StoredTensor> tensor(Value value) const;

    /// Whether `value` is a tensor, readable or not.
    static bool is_tensor(Value value);

    /// All tensors of the tree in its order, including those inside objects. A tensor that the tree contains twice is
    /// listed twice; the tensors of a dict or list that the tree contains twice are listed once.
    std::vector<NamedTensor> tensors() const;

    /// The nodes of the tree that tensors() lists, in the same order.
    std::vector<NamedValue> tensor_values() const;

    /// Where a storage is; null if none has this key.
    const Storage* find_storage(std::string_view key) const {
        const auto found = storages_.find(key);
        return found == storages_.end() ? nullptr : &found->second;
    }

    /// The bytes of a storage as they are. Throws Error when there is no such storage.
    std::string storage(std::string_view key) const;

    /// The logical elements of `tensor` in C order, little-endian, after conjugation and negation. Only for small
    /// tensors: reads the whole storage into memory.
    std::string elements(const StoredTensor& tensor) const;

    /// Throws Error if a record does not match its CRC-32 in the archive; does nothing for legacy streams.
    void check_crcs() const;

    /// A hash of the sizes and CRC-32s of all storages; unset for a legacy stream, and if a CRC-32 is not recorded.
    std::optional<std::size_t> storages_hash() const;

private:
    friend class ArchiveReader;
    friend class LegacyReader;

    std::shared_ptr<const Fd> owned_;  ///< set by open(path); a range is owned by the caller
    FileRange range_;
    Document document_;
    std::optional<Zip> zip_;
    std::map<std::string, Storage, std::less<>> storages_;
    bool big_endian_ = false;
};

/// The only tensor of the archive at `range`; DCP and Megatron store each chunk as such an archive. Reads a small
/// archive at once, a large one with one read at each end. Throws Error if the root is not a tensor, or if the tensor
/// is compressed, big-endian, conjugated or negated.
StoredTensor read_tensor_blob(const FileRange& range);

/// The class, as "module.name", of a tensor whose class is not one of torch's; otherwise empty.
std::string subclass_of(Value value);

}  // namespace tpx::torch
