// SPDX-License-Identifier: Apache-2.0
#include "formats/encodings/dcp/metadata.hpp"
#include "lib/core/coverage.hpp"
#include "lib/core/error.hpp"
#include "lib/core/file.hpp"
#include "lib/core/name_list.hpp"
#include "lib/core/path.hpp"

#include <algorithm>
#include <cstdint>
#include <numeric>
#include <span>
#include <string>
#include <tuple>
#include <vector>

namespace tpx::formats {
namespace {

/// The bytes of a file that store one piece or one object. `item` counts pieces first, then objects.
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

/// All extents, grouped by file and sorted by offset.
std::vector<Extent> extents_of(const Checkpoint& checkpoint) {
    const Catalogue& catalogue = checkpoint.catalogue;
    std::vector<std::size_t> ends(catalogue.files.size());
    for (const Piece& piece : catalogue.pieces) ++ends[piece.file];
    for (const Object& object : catalogue.objects) ++ends[object.file];
    std::exclusive_scan(ends.begin(), ends.end(), ends.begin(), std::size_t{0});
    std::vector<Extent> extents(catalogue.pieces.size() + catalogue.objects.size());
    std::uint32_t item = 0;
    for (const Piece& piece : catalogue.pieces) {
        extents[ends[piece.file]++] = {piece.file, item, piece.offset, checkpoint.archives[item]};
        ++item;
    }
    for (const Object& object : catalogue.objects)
        extents[ends[object.file]++] = {object.file, item++, object.offset, object.length};
    const auto in_order = [](const Extent& a, const Extent& b) {
        return std::tie(a.offset, a.length) < std::tie(b.offset, b.length);
    };
    std::size_t begin = 0;
    for (const std::size_t end : ends) {  // usually archives are stored in the order of the pieces
        const auto first = extents.begin() + std::ptrdiff_t(begin), last = extents.begin() + std::ptrdiff_t(end);
        if (!std::is_sorted(first, last, in_order)) std::sort(first, last, in_order);
        begin = end;
    }
    return extents;
}

/// The files after file `first` that `extents` refer to but that do not exist.
NameList missing_after(const Catalogue& catalogue, std::span<const Extent> extents, std::uint32_t first) {
    NameList absent;
    std::uint32_t last = first;
    for (const Extent& extent : extents) {
        if (extent.file <= last) continue;
        last = extent.file;
        if (!path_exists(catalogue.path(last))) absent.add(catalogue.files[last].path.string());
    }
    return absent;
}

/// The size of the file of extents.front(). All extents of this file come first in `extents`, sorted by offset. If the
/// file is missing, which `missing` must allow, returns the end of its last extent.
std::uint64_t size_for(Checkpoint& checkpoint, std::span<const Extent> extents, MissingFiles missing) {
    const Catalogue& catalogue = checkpoint.catalogue;
    const Extent& extent = extents.front();
    if (missing == MissingFiles::allowed && !path_exists(catalogue.path(extent.file))) {
        checkpoint.missing_files.insert(extent.file);
        std::uint64_t size = 0;
        for (auto other = extents.begin(); other != extents.end() && other->file == extent.file; ++other)
            size = other->offset + other->length;
        return size;
    }
    try {
        return size_of_file(catalogue.path(extent.file));
    } catch (const Error& error) {
        const NameList others = missing_after(catalogue, extents, extent.file);
        throw failure("{}; it should contain {}{}", error.what(), describe(catalogue, extent),
                      others.count() > 0 ? fmt::format("; also missing: {}", others.text()) : "");
    }
}

}  // namespace

void check_extents(Checkpoint& checkpoint, MissingFiles missing) {
    Catalogue& catalogue = checkpoint.catalogue;
    const Extent* last = nullptr;
    const std::vector<Extent> extents = extents_of(checkpoint);
    const auto from = [&](const Extent& first) { return std::span{&first, extents.data() + extents.size()}; };
    for (const Extent& extent : extents) {
        const bool same_file = last != nullptr && last->file == extent.file;
        if (!same_file) catalogue.files[extent.file].size = size_for(checkpoint, from(extent), missing);
        const std::uint64_t size = catalogue.files[extent.file].size;
        if (extent.offset > size || extent.length > size - extent.offset)
            throw failure("{}: {}: {} bytes at offset {} exceed the file size ({} bytes)",
                          catalogue.path(extent.file).string(), describe(catalogue, extent), extent.length,
                          extent.offset, size);
        if (same_file && last->offset + last->length > extent.offset)
            throw failure("{}: {}: shares {} bytes at offset {} with {}", catalogue.path(extent.file).string(),
                          describe(catalogue, extent), last->offset + last->length - extent.offset, extent.offset,
                          describe(catalogue, *last));
        last = &extent;
    }
}

void open_chunks(const std::filesystem::path& directory, Checkpoint& checkpoint, MissingFiles missing) {
    checkpoint.catalogue.directory = directory;
    read_metadata(directory, checkpoint);
    check_extents(checkpoint, missing);
    in_context([&] { return (directory / ".metadata").string(); }, [&] { find_holes(checkpoint.catalogue); });
}

}  // namespace tpx::formats
