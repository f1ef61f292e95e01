// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "lib/core/box.hpp"
#include "lib/core/dtype.hpp"

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

// The training state that one rank holds in memory: a segment, which is a file of raw bytes, and a JSON document that
// describes the segment; see tpx-hold(1).
namespace tpx::formats::held {

/// The keys that lead to a value in the saved state dict.
using KeyPath = std::vector<std::variant<std::int64_t, std::string>>;

/// A box of a tensor, stored in C order at byte `offset` of the segment.
struct HeldTensor {
    std::string name;
    DType dtype = DType::f32;
    Shape shape;  ///< of the whole tensor
    Box box;
    std::uint64_t offset = 0;
    KeyPath path;
};

/// A value that is not a tensor, serialized by torch.save.
struct HeldObject {
    std::string name;
    std::uint64_t offset = 0;
    std::uint64_t length = 0;
    KeyPath path;
};

/// GPU memory that contains the tensors of a segment.
struct GpuPlace {
    std::string bus;     ///< PCI address of the GPU
    std::string handle;  ///< CUDA IPC memory handle, as hexadecimal digits
};

struct Document {
    int rank = 0;
    int ranks = 1;
    std::optional<std::int64_t> iteration;
    std::string job;
    std::string layout;      ///< empty: unknown
    std::uint64_t size = 0;  ///< of the segment in bytes
    std::vector<HeldTensor> tensors;
    std::vector<HeldObject> objects;
    /// Offset in the segment of the tensors' CRC-32s (as in zip, little-endian), in tensor order; unset: none are
    /// stored.
    std::optional<std::uint64_t> crcs;
    /// The GPU memory that contains the tensors; unset: they are in the segment, where objects and checksums always
    /// are.
    std::optional<GpuPlace> gpu;
};

/// The size of a tensor's box in bytes.
std::uint64_t payload(const HeldTensor& tensor);

/// Reads a document. Throws Error if it is malformed, or if it places anything outside of its segment.
Document parse_document(std::string_view json);

std::string write_document(const Document& document);

/// Everything that a keeper holds: the names of the documents and segments, and of a config.json, which are in the
/// manifest's folder.
struct Manifest {
    struct Part {
        std::string document;
        std::string segment;
        std::optional<GpuPlace> gpu;  ///< contains the tensors instead of the segment; unset: the segment does
    };
    std::vector<Part> parts;
    std::string config;  ///< empty: none
    std::string save;    ///< identifies the save; empty: unknown
};

/// The name of one host's manifest in a folder that contains the documents and segments of several hosts; and whether
/// `file` is such a name.
std::string manifest_of_host(std::string_view host);
bool is_manifest_of_host(std::string_view file);

/// The first characters of every manifest.
inline constexpr std::string_view manifest_start = R"({"tpx_held":1)";

/// Reads a manifest. Throws Error if it is malformed, or if a name is a path.
Manifest parse_manifest(std::string_view json);

std::string write_manifest(const Manifest& manifest);

}  // namespace tpx::formats::held
