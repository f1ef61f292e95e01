// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "lib/core/box.hpp"
#include "lib/core/dtype.hpp"
#include "lib/layout/config.hpp"

#include <cstdint>
#include <filesystem>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace tpx::formats::gguf {

/// A ggml type: blocks of `elements` elements in `bytes` bytes. Types without dtype are quantized.
struct BlockType {
    std::uint32_t number;
    std::string_view name;  ///< "Q4_K"
    std::uint32_t elements;
    std::uint32_t bytes;
    std::optional<DType> dtype;
};

struct TensorInfo {
    std::string name;
    const BlockType* type = nullptr;
    Shape shape;               ///< slowest axis first
    std::uint64_t offset = 0;  ///< of its bytes, from the start of the file
    std::uint64_t bytes = 0;
};

/// The elements and bytes of a block of ggml type `name`. Precondition: the type is known.
struct TypeSize {
    Index elements = 0;
    Index bytes = 0;
};
TypeSize size_of_type(std::string_view name);

/// The byte range of a metadata list in the file.
struct ListPlace {
    std::uint64_t offset = 0;
    std::uint64_t bytes = 0;
};

/// The part of a file before the tensors' bytes: metadata, and the place of each tensor, in file order.
struct Header {
    Config metadata;                         ///< scalars
    std::map<std::string, ListPlace> lists;  ///< such as tokens
    std::vector<TensorInfo> tensors;
};

/// Reads a file's header; checks that every length fits the file and that no two tensors share bytes. Throws Error
/// "FILE: ..." if it is malformed.
Header read_header(const std::filesystem::path& file);

}  // namespace tpx::formats::gguf
