// SPDX-License-Identifier: Apache-2.0
#include "formats/dcp/metadata.hpp"
#include "lib/core/error.hpp"
#include "lib/core/file.hpp"

#include <algorithm>
#include <cstdint>
#include <string>
#include <tuple>
#include <vector>

namespace tpx::formats {
namespace {

/// Bytes of a file that one piece or one object has. `item` counts pieces first, then objects.
struct Extent {
    std::uint32_t file = 0;
    std::uint32_t item = 0;
    std::uint64_t offset = 0;
    std::uint64_t length = 0;
};

std::string describe(const Catalogue& catalogue, const Extent& extent) {
    if (extent.item >= catalogue.pieces.size())
        return fmt::format("object '{}'", catalogue.objects[extent.item - catalogue.pieces.size()].name);
    const Piece& piece = catalogue.pieces[extent.item];
    return fmt::format("tensor '{}': box {}", catalogue.tensors[piece.tensor].name, to_string(piece.box));
}

std::vector<Extent> extents_of(const Checkpoint& checkpoint) {
    const Catalogue& catalogue = checkpoint.catalogue;
    std::vector<Extent> extents;
    extents.reserve(catalogue.pieces.size() + catalogue.objects.size());
    for (const Piece& piece : catalogue.pieces) {
        const auto item = std::uint32_t(extents.size());
        extents.push_back({piece.file, item, piece.offset, checkpoint.archives[item]});
    }
    for (const Object& object : catalogue.objects)
        extents.push_back({object.file, std::uint32_t(extents.size()), object.offset, object.length});
    std::sort(extents.begin(), extents.end(), [](const Extent& a, const Extent& b) {
        return std::tie(a.file, a.offset, a.length) < std::tie(b.file, b.offset, b.length);
    });
    return extents;
}

std::uint64_t size_for(const Catalogue& catalogue, const Extent& extent) {
    try {
        return size_of_file(catalogue.path(extent.file));
    } catch (const Error& error) {
        throw failure("{}, but it holds {}", error.what(), describe(catalogue, extent));
    }
}

}  // namespace

void check_extents(Checkpoint& checkpoint) {
    Catalogue& catalogue = checkpoint.catalogue;
    const Extent* last = nullptr;
    const std::vector<Extent> extents = extents_of(checkpoint);
    for (const Extent& extent : extents) {
        const bool same_file = last != nullptr && last->file == extent.file;
        if (!same_file) catalogue.files[extent.file].size = size_for(catalogue, extent);
        const std::uint64_t size = catalogue.files[extent.file].size;
        if (extent.offset > size || extent.length > size - extent.offset)
            throw failure("{}: {}: {} bytes at offset {} leave the file ({} bytes)",
                          catalogue.path(extent.file).string(), describe(catalogue, extent), extent.length,
                          extent.offset, size);
        if (same_file && last->offset + last->length > extent.offset)
            throw failure("{}: {}: shares {} bytes at offset {} with {}", catalogue.path(extent.file).string(),
                          describe(catalogue, extent), last->offset + last->length - extent.offset, extent.offset,
                          describe(catalogue, *last));
        last = &extent;
    }
}

}  // namespace tpx::formats
