// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "lib/core/file.hpp"

#include <filesystem>
#include <string_view>

namespace tpx {

/// Makes `text` the content of the file at `path`: at any moment, and after a crash, the file has either its old or its
/// new content. tpx writes every file other than those of a checkpoint with this function.
///
/// The content goes to a new file with an unpredictable name in the same directory, is synced, and is then renamed,
/// after which the directory is synced. A link at `path` stays, and the file that it leads to is replaced; a link that
/// another user made in a directory that everyone can write to (/tmp) is rejected. A replaced file keeps its mode and
/// must be writable. Pipes, terminals, devices and open descriptors (/dev/stdout, /dev/fd/3) are written in place.
///
/// Throws Error "PATH: cause"; then `path` is as it was and no other file is left, unless the exit status is 4: the
/// file is written, but may not survive a crash of the machine.
void write_file(const std::filesystem::path& path, std::string_view text);

/// The same inside a checkpoint, whose entries may have been made by another user: no link is followed and no special
/// file is written to. A new file has the permissions `mode`, less the umask. Throws Error "PATH: is a link; remove
/// it".
void write_file_in_checkpoint(const std::filesystem::path& path, std::string_view text, unsigned mode = 0666);

/// Closes a file that was written to: some file systems (NFS, quotas) report a failed write only then. Throws Error
/// "PATH: cause"; the file is closed in any case.
void close_file(Fd fd, const std::filesystem::path& path);

/// Throws the Error that write_file would throw if `path` cannot be written at all. Changes nothing.
void check_writable(const std::filesystem::path& path);

}  // namespace tpx
