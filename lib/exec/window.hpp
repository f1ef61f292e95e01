// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "lib/exec/image.hpp"
#include "lib/exec/source_files.hpp"

#include <cstddef>
#include <functional>
#include <span>
#include <vector>

namespace tpx {

/// Allocates memory from a fixed region, from its beginning on, until it is cleared.
class Arena {
public:
    /// Maps `size` bytes of address space; pages take up memory only once they are used.
    explicit Arena(std::uint64_t size);
    ~Arena();
    Arena(const Arena&) = delete;
    Arena& operator=(const Arena&) = delete;

    /// `size` bytes whose address is congruent to `offset` modulo 4096. Throws Error when the arena is full.
    std::byte* take(std::uint64_t size, std::uint64_t offset);
    void clear() { used_ = 0; }

private:
    std::byte* begin_ = nullptr;
    std::uint64_t size_;
    std::uint64_t used_ = 0;
};

/// Images of parts of files in memory. Images that touch or overlap in a file share one extent, so that its bytes are
/// read or written once, in one call.
class Window {
public:
    explicit Window(std::span<Image> images) : images_{images}, at_(images.size()) {}

    /// Allocates memory for the images in `arena` so that they can be read; small gaps between images are read, too.
    void place_for_reading(Arena& arena);

    /// Allocates memory for the images in `arena` so that every byte between the beginning and the end of an extent
    /// belongs to an image. Precondition: images do not overlap.
    void place_for_writing(Arena& arena);

    /// Fills the images from their files; returns how many bytes were read.
    std::uint64_t read(SourceFiles& files) const;

    /// Calls `write(file, offset, bytes)` for all images, in as few calls as possible.
    using Write = std::function<void(std::uint32_t, std::uint64_t, std::span<const std::byte>)>;
    void write(const Write& write) const;

    /// Where the first element of an image is in memory.
    std::byte* at(std::size_t image) const { return at_[image]; }

private:
    struct Extent {
        std::uint32_t file;
        std::uint64_t begin;
        std::uint64_t end;
        std::byte* at;
    };

    void place(Arena& arena, std::uint64_t gap, bool exact);
    void place_together(Arena& arena, std::span<const std::size_t> images, std::uint64_t end);

    std::span<Image> images_;
    std::vector<std::byte*> at_;
    std::vector<Extent> extents_;
};

}  // namespace tpx
