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

/// A type of ggml: so many elements make a block of so many bytes. Those without dtype are quantised.
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

/// How many elements a block of the type called `name` has, and how many bytes. Precondition: such a type is known.
struct TypeSize {
    Index elements = 0;
    Index bytes = 0;
};
TypeSize size_of_type(std::string_view name);

/// A list of metadata, as bytes of the file.
struct ListPlace {
    std::uint64_t offset = 0;
    std::uint64_t bytes = 0;
};

/// What stands before the tensors' bytes: metadata, and where each tensor is, in the order of the file.
struct Header {
    Config metadata;                         ///< scalars
    std::map<std::string, ListPlace> lists;  ///< tokens and the like
    std::vector<TensorInfo> tensors;
};

/// Reads a file's header; every length in it is checked against the file, and no two tensors share bytes. Throws Error
/// "FILE: ..." when it is malformed.
Header read_header(const std::filesystem::path& file);

}  // namespace tpx::formats::gguf
