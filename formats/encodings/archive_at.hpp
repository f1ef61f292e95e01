// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "formats/encodings/torch/archive.hpp"
#include "lib/core/catalogue.hpp"
#include "lib/core/error.hpp"
#include "lib/core/file.hpp"

#include <fcntl.h>

#include <cstdint>
#include <filesystem>

namespace tpx::formats {

/// The range of the archive of `object` in `fd`, the object's open file. The root of an archive opened from this range
/// is always a list that contains the value, even if the file stores the value alone.
inline torch::FileRange range_of(const Catalogue& catalogue, const Object& object, const Fd& fd) {
    return {.fd = &fd,
            .path = catalogue.path(object.file),
            .offset = object.offset,
            .length = object.length,
            .is_item = object.bare};
}

/// Calls `read` with the torch.save archive at `offset` of one of the catalogue's files. Throws Error "FILE: ..." if
/// there is none.
template <class Read>
void with_archive(const Catalogue& catalogue, std::uint32_t file, std::uint64_t offset, std::uint64_t length,
                  Read&& read) {
    const std::filesystem::path path = catalogue.path(file);
    const Fd fd = open_file(path, O_RDONLY);
    read(torch::Archive::open(torch::FileRange{&fd, path, offset, length}));
}

/// Calls `read` with the archive of `object`. Throws Error "FILE: object 'NAME': ..."; errors of `read` also get the
/// object's name.
template <class Read>
void with_archive(const Catalogue& catalogue, const Object& object, Read&& read) {
    in_context([&] { return fmt::format("object '{}'", object.name); },
               [&] {
                   const Fd fd = open_file(catalogue.path(object.file), O_RDONLY);
                   read(torch::Archive::open(range_of(catalogue, object, fd)));
               });
}

}  // namespace tpx::formats
