// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "lib/core/box.hpp"
#include "lib/core/coding.hpp"
#include "lib/core/dtype.hpp"

#include <cstdint>
#include <filesystem>
#include <memory>
#include <string>
#include <vector>

namespace tpx {

/// A whole, unsharded tensor and the name that some checkpoint gives it.
struct Tensor {
    std::string name;
    DType dtype = DType::f32;
    Shape shape;
};

/// A box of a tensor and where its bytes are. Element x of the box is in file `file` at byte `offset` + itemsize * sum
/// over axes of (x[k] - box[k].begin) * strides[k]; any order of strides is allowed.
struct Piece {
    std::uint32_t tensor = 0;  ///< index into the list of tensors
    std::uint32_t file = 0;    ///< index into the list of files
    std::uint64_t offset = 0;  ///< bytes from the start of the file
    Box box;                   ///< in the tensor's own index space
    Strides strides;           ///< in elements
    std::int32_t rank = -1;    ///< the rank that wrote or will write it; -1: unknown
};

/// A file of a checkpoint: its path relative to the checkpoint's directory and its size in bytes. With a coding, the
/// entry represents the decoded bytes of a part of that file: its size and all offsets into it count decoded bytes.
struct FileEntry {
    std::filesystem::path path;
    std::uint64_t size = 0;
    std::shared_ptr<const Coding> coding = nullptr;
};

/// A file to read pieces from: its path and, if its bytes are stored encoded, how to decode them.
struct SourceFile {
    std::filesystem::path path;
    std::shared_ptr<const Coding> coding = nullptr;
};

/// Opaque bytes that a checkpoint stores under a name (DCP byte items, Megatron ShardedObjects); copied unchanged.
struct Object {
    std::string name;
    std::uint32_t file = 0;
    std::uint64_t offset = 0;
    std::uint64_t length = 0;
    bool bare = false;  ///< a ShardedObject whose archive contains the value itself, not a list of it as in torch_dist
};

/// What a checkpoint really stores, whichever program wrote it. Pieces are sorted by tensor, then box.
struct Catalogue {
    std::filesystem::path directory;
    std::vector<FileEntry> files;
    std::vector<Tensor> tensors;
    std::vector<Piece> pieces;
    std::vector<Object> objects;

    std::filesystem::path path(std::uint32_t file) const { return directory / files[file].path; }
};

/// A checkpoint to be written, of which every byte except the payloads is known. Pieces specify where the payloads go.
struct Draft {
    /// Bytes known before any payload moves: headers, metadata, names.
    struct Fixed {
        std::uint32_t file = 0;
        std::uint64_t offset = 0;
        std::string bytes;
    };
    /// Four little-endian bytes for a CRC-32 (as in zip) that is known once payloads have moved: of the payload of
    /// `piece`, or of `length` bytes of the slot's file from `begin` on, which are pieces with zeros between them.
    struct CrcSlot {
        std::uint32_t piece = 0;
        std::uint32_t file = 0;
        std::uint64_t offset = 0;
        std::uint64_t begin = 0;
        std::uint64_t length = 0;  ///< 0: the CRC is that of `piece`
    };
    /// Bytes copied verbatim from a file outside the draft.
    struct Copy {
        std::filesystem::path source;
        std::uint64_t source_offset = 0;
        std::uint64_t length = 0;
        std::uint32_t file = 0;
        std::uint64_t offset = 0;
    };

    std::vector<FileEntry> files;
    std::vector<Tensor> tensors;
    std::vector<Piece> pieces;
    std::vector<Fixed> fixed;
    std::vector<CrcSlot> crc_slots;
    std::vector<Copy> copies;
};

}  // namespace tpx
