// SPDX-License-Identifier: Apache-2.0
#include "lib/exec/window.hpp"

#include "lib/core/error.hpp"

#include <sys/mman.h>

#include <algorithm>
#include <tuple>

namespace tpx {
namespace {

constexpr std::uint64_t page = 4096;

}  // namespace

Arena::Arena(std::uint64_t size) : size_{size} {
    void* memory = ::mmap(nullptr, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (memory == MAP_FAILED) throw failure("no memory for {} bytes of buffers (see --memory)", size);
    begin_ = static_cast<std::byte*>(memory);
    // Causes fewer page faults at first use; has no effect on systems that do not support it.
    ::madvise(memory, size, MADV_HUGEPAGE);
}

Arena::~Arena() { ::munmap(begin_, size_); }

std::byte* Arena::take(std::uint64_t size, std::uint64_t offset) {
    const std::uint64_t begin = (used_ + page - 1) / page * page + offset % page;
    if (begin > size_ || size > size_ - begin)
        throw failure("{} bytes of buffers are too few; use a larger --memory", size_);
    used_ = begin + size;
    return begin_ + begin;
}

void Window::place_for_reading(Arena& arena) { place(arena, page, false); }

void Window::place_for_writing(Arena& arena) { place(arena, 0, true); }

// Sorts the images that are kept as stored, and joins neighbors. If `exact` and there are gaps between joined images,
// each is placed on its own, packed if it has gaps.
void Window::place(Arena& arena, std::uint64_t gap, bool exact) {
    std::vector<std::size_t> order;
    for (std::size_t k = 0; k < images_.size(); ++k) {
        if (!images_[k].pack) order.push_back(k);
    }
    std::ranges::sort(order, {}, [&](std::size_t k) { return std::tuple{images_[k].file, images_[k].begin, k}; });
    for (std::size_t first = 0, last = 0; first < order.size(); first = last) {
        std::uint64_t end = images_[order[first]].end;
        std::uint64_t bytes = images_[order[first]].bytes;
        for (last = first + 1; last < order.size(); ++last) {
            const Image& next = images_[order[last]];
            if (next.file != images_[order[first]].file || next.begin > end + gap) break;
            end = std::max(end, next.end);
            bytes += next.bytes;
        }
        const std::span together{order.data() + first, last - first};
        if (!exact || bytes == end - images_[order[first]].begin) {
            place_together(arena, together, end);
            continue;
        }
        for (const std::size_t& image : together) {
            images_[image].pack = !images_[image].is_run();
            if (!images_[image].pack) place_together(arena, {&image, 1}, images_[image].end);
        }
    }
    for (std::size_t k = 0; k < images_.size(); ++k) {
        if (images_[k].pack) at_[k] = arena.take(images_[k].bytes, 0);
    }
}

void Window::place_together(Arena& arena, std::span<const std::size_t> images, std::uint64_t end) {
    const Image& first = images_[images.front()];
    const Extent extent{first.file, first.begin, end, arena.take(end - first.begin, first.begin)};
    for (std::size_t image : images) at_[image] = extent.at + (images_[image].begin - extent.begin);
    extents_.push_back(extent);
}

std::uint64_t Window::read(SourceFiles& files) const {
    std::uint64_t bytes = 0;
    for (const Extent& extent : extents_) {
        files.read(extent.file, extent.begin, {extent.at, extent.end - extent.begin});
        bytes += extent.end - extent.begin;
    }
    for (std::size_t k = 0; k < images_.size(); ++k) {
        const Image& image = images_[k];
        if (!image.pack) continue;
        std::byte* to = at_[k];
        for_each_run(image, [&](std::uint64_t offset) {
            files.read(image.file, offset, {to, image.run});
            to += image.run;
        });
        bytes += image.bytes;
    }
    return bytes;
}

void Window::write(const Write& write) const {
    for (const Extent& extent : extents_) write(extent.file, extent.begin, {extent.at, extent.end - extent.begin});
    for (std::size_t k = 0; k < images_.size(); ++k) {
        const Image& image = images_[k];
        if (!image.pack) continue;
        const std::byte* from = at_[k];
        for_each_run(image, [&](std::uint64_t offset) {
            write(image.file, offset, {from, image.run});
            from += image.run;
        });
    }
}

}  // namespace tpx
