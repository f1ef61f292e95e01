// SPDX-License-Identifier: Apache-2.0
#include "lib/exec/draft_files.hpp"

#include "lib/core/error.hpp"
#include "lib/core/file.hpp"
#include "lib/core/parallel_for.hpp"
#include "lib/core/path.hpp"
#include "lib/core/unfinished.hpp"
#include "lib/core/write_file.hpp"
#include "lib/exec/fixed_slots.hpp"

#include <fcntl.h>
#include <stdio.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <set>

namespace tpx {
namespace {

namespace fs = std::filesystem;

constexpr std::size_t sync_threads = 16;

void sync_directory(const fs::path& path) {
    Fd fd = open_file(path, O_RDONLY | O_DIRECTORY);
    sync_file(fd, path);
    close_file(std::move(fd), path);
}

bool stays_below(const fs::path& path) {
    return path.is_relative() && std::ranges::find(path, fs::path{".."}) == path.end();
}

}  // namespace

DraftFiles::DraftFiles(const mpi::Comm& comm, const Draft& draft, const fs::path& directory)
    : comm_{comm}, draft_{draft}, directory_{directory} {
    for (const FileEntry& file : draft_.files) paths_.push_back(unfinished_name(directory_ / file.path));
}

// Blocks that an earlier run has written count as free.
void DraftFiles::check_disk_space() const {
    struct statvfs status {};
    if (::statvfs(directory_.c_str(), &status) != 0) return;
    std::uint64_t needed = 0;
    for (const FileEntry& file : draft_.files) needed += file.size;
    std::uint64_t room = std::uint64_t{status.f_bavail} * status.f_frsize;
    for (std::size_t k = 0; k < paths_.size(); ++k) {
        struct stat own {};
        if (::lstat(paths_[k].c_str(), &own) == 0 || ::lstat((directory_ / draft_.files[k].path).c_str(), &own) == 0)
            room += static_cast<std::uint64_t>(own.st_blocks) * 512;
    }
    if (needed > room) throw failure("{}: {} bytes are needed, {} are free", directory_.string(), needed, room);
}

void DraftFiles::create(TargetFiles& files) const {
    make([&](std::size_t file) { return open_file(paths_[file], O_WRONLY | O_CREAT | O_EXCL); }, files);
}

void DraftFiles::create_or_adopt(bool keep, TargetFiles& files) const {
    make([&](std::size_t file) { return adopt(file, keep); }, files);
}

Fd DraftFiles::adopt(std::size_t file, bool keep) const {
    const fs::path name = directory_ / draft_.files[file].path;
    if (!entry_exists(paths_[file]) && entry_exists(name) && ::rename(name.c_str(), paths_[file].c_str()) != 0)
        throw system_failure(name, errno);
    Fd fd = open_file(paths_[file], O_WRONLY | O_CREAT | O_NOFOLLOW | O_NONBLOCK);
    struct stat own {};
    if (::fstat(fd.get(), &own) != 0) throw system_failure(paths_[file], errno);
    if (!S_ISREG(own.st_mode) || own.st_nlink != 1)
        throw failure("{}: not a regular file with a single link; remove it", paths_[file].string());
    const bool is_wrong = static_cast<std::uint64_t>(own.st_size) != draft_.files[file].size;
    if ((!keep || is_wrong) && ::ftruncate(fd.get(), 0) != 0) throw system_failure(paths_[file], errno);
    // The earlier run may have granted permissions that the umask denies now.
    const mode_t denied = ::umask(0);
    ::umask(denied);
    if ((own.st_mode & denied) != 0 && ::fchmod(fd.get(), own.st_mode & 0777 & ~denied) != 0)
        throw system_failure(paths_[file], errno);
    return fd;
}

void DraftFiles::make(const std::function<Fd(std::size_t)>& open, TargetFiles& files) const {
    make_directories(directory_);
    if (comm_.rank() == 0) check_disk_space();
    fs::path made;
    for (std::size_t k = 0; k < paths_.size(); ++k) {
        if (!mine(k)) continue;
        if (!stays_below(draft_.files[k].path))
            throw failure("{}: leaves the checkpoint's directory", draft_.files[k].path.string());
        if (paths_[k].parent_path() != made) make_directories(made = paths_[k].parent_path());
        Fd fd = open(k);
        if (::ftruncate(fd.get(), static_cast<off_t>(draft_.files[k].size)) != 0)
            throw system_failure(paths_[k], errno);
        files.adopt(static_cast<std::uint32_t>(k), std::move(fd));
    }
}

std::uint64_t DraftFiles::write_known(std::span<std::byte> buffer, TargetFiles& files) const {
    std::uint64_t bytes = 0;
    const FixedSlots slots{draft_};
    for (std::size_t k = 0; k < draft_.fixed.size(); ++k) {
        const Draft::Fixed& fixed = draft_.fixed[k];
        if (!mine(fixed.file) || slots.has(k)) continue;
        files.write(fixed.file, fixed.offset, std::as_bytes(std::span{fixed.bytes}));
        bytes += fixed.bytes.size();
    }
    for (const Draft::Copy& copy : draft_.copies) {
        if (!mine(copy.file)) continue;
        const Fd source = open_file(copy.source, O_RDONLY);
        for (std::uint64_t done = 0; done < copy.length;) {
            const auto part = buffer.first(std::min<std::uint64_t>(buffer.size(), copy.length - done));
            read_at(source, copy.source_offset + done, part, copy.source);
            files.write(copy.file, copy.offset + done, part);
            done += part.size();
        }
        bytes += copy.length;
    }
    return bytes;
}

void DraftFiles::write_slots(const PayloadCrcs& crcs, TargetFiles& files) const {
    const auto bytes_of = [&](std::size_t slot) {
        const std::uint32_t value = crcs.value(slot);
        return std::string{static_cast<char>(value), static_cast<char>(value >> 8), static_cast<char>(value >> 16),
                           static_cast<char>(value >> 24)};
    };
    const FixedSlots slots{draft_};
    for (std::size_t k = 0; !slots.are_apart() && k < draft_.crc_slots.size(); ++k) {
        const Draft::CrcSlot& slot = draft_.crc_slots[k];
        if (!mine(slot.file)) continue;
        const std::string bytes = bytes_of(k);
        files.write(slot.file, slot.offset, std::as_bytes(std::span{bytes}));
    }
    std::string bytes;
    for (std::size_t k = 0; slots.are_apart() && k < draft_.fixed.size(); ++k) {
        const Draft::Fixed& fixed = draft_.fixed[k];
        if (!mine(fixed.file) || !slots.has(k)) continue;
        bytes = fixed.bytes;
        for (std::size_t slot = slots.begin(k); slot < slots.end(k); ++slot)
            std::ranges::copy(bytes_of(slot), bytes.begin() + (draft_.crc_slots[slot].offset - fixed.offset));
        files.write(fixed.file, fixed.offset, std::as_bytes(std::span{bytes}));
    }
}

void DraftFiles::rename_to_final() const {
    std::vector<bool> has_payload(paths_.size());
    for (const Piece& piece : draft_.pieces) has_payload[piece.file] = true;
    for (const bool payload : {true, false}) {
        mpi::all_or_none(comm_, [&] {
            for (std::size_t k = 0; k < paths_.size(); ++k) {
                if (!mine(k) || has_payload[k] != payload) continue;
                const fs::path name = directory_ / draft_.files[k].path;
                if (::rename(paths_[k].c_str(), name.c_str()) != 0) throw system_failure(name, errno);
            }
        });
    }
    mpi::all_or_none(comm_, [&] { sync_directories(); });
}

void DraftFiles::sync(const std::vector<bool>& written, TargetFiles& files) const {
    std::vector<std::uint32_t> numbers;
    for (std::uint32_t k = 0; k < paths_.size(); ++k)
        if (mine(k) || written[k]) numbers.push_back(k);
    // Syncing many files at the same time is faster than one after another.
    parallel_for(numbers.size(), sync_threads, [&](std::size_t k) { files.sync(numbers[k]); });
    files.close();
    sync_directories();
}

void DraftFiles::sync_directories() const {
    std::set<fs::path> directories{directory_};
    for (std::size_t k = 0; k < paths_.size(); ++k) {
        if (!mine(k)) continue;
        for (fs::path path = draft_.files[k].path.parent_path(); !path.empty(); path = path.parent_path())
            directories.insert(directory_ / path);
    }
    for (const fs::path& directory : directories) sync_directory(directory);
}

bool has_all_files(const Draft& draft, const fs::path& folder) {
    if (list_files_below(folder).size() != draft.files.size()) return false;
    return std::ranges::all_of(draft.files, [&](const FileEntry& file) {
        return path_is_file(folder / file.path) && size_of_file(folder / file.path) == file.size;
    });
}

}  // namespace tpx
