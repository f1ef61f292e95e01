// SPDX-License-Identifier: Apache-2.0
#include "formats/archive_check.hpp"

#include "formats/driver.hpp"
#include "formats/encodings/torch/zip.hpp"
#include "lib/core/crc.hpp"
#include "lib/core/error.hpp"
#include "lib/core/file.hpp"

#include <fcntl.h>

#include <algorithm>

namespace tpx::formats {
namespace {

/// One torch.save archive: its byte range in a file, and its name in messages.
struct Archive {
    std::uint32_t file = 0;
    std::uint64_t offset = 0;
    std::uint64_t length = 0;
    std::string owner;
};

std::vector<Archive> archives_of(const Checkpoint& checkpoint) {
    const Catalogue& catalogue = checkpoint.catalogue;
    std::vector<Archive> all;
    for (std::size_t p = 0; p < checkpoint.archives.size(); ++p) {
        const Piece& piece = catalogue.pieces[p];
        if (checkpoint.archives[p] > 0)
            all.push_back({piece.file, piece.offset, checkpoint.archives[p],
                           fmt::format("tensor '{}' {}", catalogue.tensors[piece.tensor].name, to_string(piece.box))});
    }
    for (const Object& object : catalogue.objects)
        all.push_back({object.file, object.offset, object.length, fmt::format("object '{}'", object.name)});
    std::ranges::stable_sort(all, {}, [](const Archive& a) { return std::pair{a.file, a.offset}; });
    // Several pieces may share an archive; keep one entry for each archive.
    const auto same = [](const Archive& a, const Archive& b) { return a.file == b.file && a.offset == b.offset; };
    all.erase(std::unique(all.begin(), all.end(), same), all.end());
    return all;
}

using IsCancelled = std::function<bool()>;

void check_archive(const torch::FileRange& range, const IsCancelled& is_cancelled) {
    const torch::Zip zip{range};
    for (const torch::ZipEntry& entry : zip.entries()) {
        if (is_cancelled()) return;
        zip.check_crc(entry);
    }
}

/// Adds a line about `error`, whose text may already start with `path`.
void add_damage(ArchiveCheck& result, const std::filesystem::path& path, std::string_view owner, const Error& error) {
    std::string_view cause = error.what();
    const std::string prefix = path.string() + ": ";
    if (cause.starts_with(prefix)) cause.remove_prefix(prefix.size());
    result.damaged.push_back(fmt::format("{}: {}{}", path.string(), owner, cause));
}

/// Checks whole files that torch.save wrote. Skips files in its legacy format, which have no CRCs.
ArchiveCheck check_files(const Checkpoint& checkpoint, int share, int shares, const IsCancelled& is_cancelled) {
    ArchiveCheck result;
    const std::size_t count = checkpoint.catalogue.files.size();
    for (std::size_t f = count * share / shares; f < count * (share + 1) / shares; ++f) {
        if (is_cancelled()) break;
        if (checkpoint.catalogue.files[f].coding) continue;  // decoded from another file
        const std::filesystem::path path = checkpoint.catalogue.path(static_cast<std::uint32_t>(f));
        const Fd fd = open_file(path, O_RDONLY);
        std::string start(2, '\0');
        read_at(fd, 0, std::as_writable_bytes(std::span{start}), path);
        if (start != "PK") continue;
        ++result.archives;
        try {
            check_archive({&fd, path, 0, checkpoint.catalogue.files[f].size}, is_cancelled);
        } catch (const Error& error) {
            add_damage(result, path, "", error);
        }
    }
    return result;
}

/// The CRC-32 of `length` bytes of a file, starting at `offset`.
std::uint32_t crc_of(const Fd& fd, std::uint64_t offset, std::uint64_t length, const std::filesystem::path& path) {
    std::vector<std::byte> buffer(std::min<std::uint64_t>(length, std::uint64_t{1} << 20));
    std::uint32_t linear = 0;
    for (std::uint64_t done = 0; done < length;) {
        const auto part = std::span{buffer}.first(std::min<std::uint64_t>(buffer.size(), length - done));
        read_at(fd, offset + done, part, path);
        linear = Crc32::shift(linear, part.size()) ^ Crc32::of(part);
        done += part.size();
    }
    return zip_crc(linear, length);
}

void check_payloads(const Checkpoint& checkpoint, int share, int shares, const IsCancelled& is_cancelled,
                    ArchiveCheck& result) {
    const Catalogue& catalogue = checkpoint.catalogue;
    for (std::size_t p = static_cast<std::size_t>(share); p < checkpoint.crcs.size(); p += std::size_t(shares)) {
        if (is_cancelled()) return;
        if (!checkpoint.crcs[p]) continue;
        const Piece& piece = catalogue.pieces[p];
        const Tensor& tensor = catalogue.tensors[piece.tensor];
        const auto length = static_cast<std::uint64_t>(volume(piece.box) * itemsize(tensor.dtype));
        const std::filesystem::path path = catalogue.path(piece.file);
        const std::uint32_t crc = crc_of(open_file(path, O_RDONLY), piece.offset, length, path);
        ++result.archives;
        if (crc == *checkpoint.crcs[p]) continue;
        const std::string owner = fmt::format("tensor '{}' {}: ", tensor.name, to_string(piece.box));
        add_damage(result, path, owner, failure("CRC-32 is {:08x} instead of {:08x}", crc, *checkpoint.crcs[p]));
    }
}

}  // namespace

ArchiveCheck check_archives(const Checkpoint& checkpoint, int share, int shares, const IsCancelled& is_cancelled) {
    ArchiveCheck result;
    const auto& files = checkpoint.catalogue.files;
    const bool bin = !files.empty() && files[0].path.extension() == ".bin";
    if (checkpoint.format->values == ValueStorage::headers && !bin) return result;
    const ValueStorage values = checkpoint.format->values;
    if (bin || values == ValueStorage::one_file || values == ValueStorage::engine_files)
        return check_files(checkpoint, share, shares, is_cancelled);
    const std::vector<Archive> all = archives_of(checkpoint);
    const std::size_t begin = all.size() * share / shares;
    const std::size_t end = all.size() * (share + 1) / shares;
    Fd fd;
    for (std::size_t a = begin; a < end && !is_cancelled(); ++a) {
        const std::filesystem::path path = checkpoint.catalogue.path(all[a].file);
        if (a == begin || all[a].file != all[a - 1].file) fd = open_file(path, O_RDONLY);
        try {
            check_archive({&fd, path, all[a].offset, all[a].length}, is_cancelled);
        } catch (const Error& error) {
            add_damage(result, path, all[a].owner + ": ", error);
        }
        ++result.archives;
    }
    check_payloads(checkpoint, share, shares, is_cancelled, result);
    return result;
}

}  // namespace tpx::formats
