// SPDX-License-Identifier: Apache-2.0
#include "formats/fill_holes.hpp"

#include "lib/core/coverage.hpp"
#include "lib/core/error.hpp"

#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>

namespace tpx::formats {

Fd fill_holes(Checkpoint& checkpoint) {
    Catalogue& catalogue = checkpoint.catalogue;
    const std::vector<Hole> holes = find_holes(catalogue);
    if (holes.empty()) return {};
    std::uint64_t largest = 0;
    for (const Hole& hole : holes) {
        const auto elements = static_cast<std::uint64_t>(volume(hole.box));
        largest = std::max(largest, elements * info(catalogue.tensors[hole.tensor].dtype).bits / 8);
    }
    Fd fd{::memfd_create("tpx-zeros", MFD_CLOEXEC)};
    if (!fd || ::ftruncate(fd.get(), static_cast<off_t>(largest)) != 0)
        throw failure("cannot create an in-memory file of {} zero bytes", largest);
    const auto file = static_cast<std::uint32_t>(catalogue.files.size());
    catalogue.files.push_back({fmt::format("/proc/self/fd/{}", fd.get()), largest});
    for (const Hole& hole : holes) {
        catalogue.pieces.push_back(
            {.tensor = hole.tensor, .file = file, .box = hole.box, .strides = row_major(sizes(hole.box))});
        if (!checkpoint.archives.empty()) checkpoint.archives.push_back(0);
        if (!checkpoint.archive_slices.empty()) checkpoint.archive_slices.emplace_back();
        if (!checkpoint.crcs.empty()) checkpoint.crcs.emplace_back();
    }
    return fd;
}

}  // namespace tpx::formats
