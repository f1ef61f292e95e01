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

/// Where the archive of a byte item is in `fd`, its open file. An archive that is opened there has a list of the value
/// as its root, even if it holds the bare value.
inline torch::FileRange range_of(const Catalogue& catalogue, const Object& object, const Fd& fd) {
    return {.fd = &fd,
            .path = catalogue.path(object.file),
            .offset = object.offset,
            .length = object.length,
            .is_item = object.bare};
}

/// Calls `read` with the torch.save archive at a place of one of the catalogue's files. Throws Error "FILE: ..." when
/// there is none.
template <class Read>
void with_archive(const Catalogue& catalogue, std::uint32_t file, std::uint64_t offset, std::uint64_t length,
                  Read&& read) {
    const std::filesystem::path path = catalogue.path(file);
    const Fd fd = open_file(path, O_RDONLY);
    read(torch::Archive::open(torch::FileRange{&fd, path, offset, length}));
}

/// Calls `read` with the archive of a byte item. Throws Error "FILE: object 'NAME': ..." with what `read` throws, too.
template <class Read>
void with_archive(const Catalogue& catalogue, const Object& object, Read&& read) {
    in_context([&] { return fmt::format("object '{}'", object.name); },
               [&] {
                   const Fd fd = open_file(catalogue.path(object.file), O_RDONLY);
                   read(torch::Archive::open(range_of(catalogue, object, fd)));
               });
}

}  // namespace tpx::formats
