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

// What one rank has in memory: a segment, which is a file of raw bytes, and a JSON document that describes it; see
// tpx-hold(1).
namespace tpx::formats::held {

/// The keys on the way to a value in the state dict that was saved.
using KeyPath = std::vector<std::variant<std::int64_t, std::string>>;

/// A box of a tensor, in C order from `offset` of the segment on.
struct HeldTensor {
    std::string name;
    DType dtype = DType::f32;
    Shape shape;  ///< of the whole tensor
    Box box;
    std::uint64_t offset = 0;
    KeyPath path;
};

/// A value that is not a tensor, in the bytes of torch.save.
struct HeldObject {
    std::string name;
    std::uint64_t offset = 0;
    std::uint64_t length = 0;
    KeyPath path;
};

/// Memory of a GPU that has the bytes of a segment.
struct GpuPlace {
    std::string bus;     ///< PCI address of the GPU
    std::string handle;  ///< of CUDA IPC, as hexadecimal digits
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
    /// Where the segment has the CRC-32 (as in zip, little-endian) of each tensor, in their order; unset: nowhere.
    std::optional<std::uint64_t> crcs;
    /// What has the tensors; unset: the segment. Objects and checksums are always in the segment as well.
    std::optional<GpuPlace> gpu;
};

/// The bytes of a tensor's box.
std::uint64_t payload(const HeldTensor& tensor);

/// Reads a document. Throws Error if it is malformed, or if it places anything outside of its segment.
Document parse_document(std::string_view json);

std::string write_document(const Document& document);

/// All that a keeper has: file names of the documents and segments, and of a config.json, beside the manifest.
struct Manifest {
    struct Part {
        std::string document;
        std::string segment;
        std::optional<GpuPlace> gpu;  ///< what has the tensors, where the segment has holes; unset: the segment
    };
    std::vector<Part> parts;
    std::string config;  ///< empty: none
    std::string save;    ///< tells different saves apart; empty: unknown
};

/// The name of the manifest of one host in a folder that has the documents and segments of several hosts, and whether a
/// file is one.
std::string manifest_of_host(std::string_view host);
bool is_manifest_of_host(std::string_view file);

/// How the text of a manifest begins.
inline constexpr std::string_view manifest_start = R"({"tpx_held":1)";

/// Reads a manifest. Throws Error if it is malformed, or if a name is a path.
Manifest parse_manifest(std::string_view json);

std::string write_manifest(const Manifest& manifest);

}  // namespace tpx::formats::held
