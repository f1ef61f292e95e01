// SPDX-License-Identifier: Apache-2.0
#include "formats/encodings/torch/archive.hpp"

#include "formats/encodings/torch/legacy.hpp"
#include "formats/encodings/torch/pickle.hpp"
#include "formats/encodings/torch/storage.hpp"
#include "lib/core/error.hpp"

#include <fcntl.h>
#include <fmt/format.h>

#include <algorithm>
#include <functional>
#include <string>
#include <utility>

namespace tpx::torch {

/// Fills an Archive from its file.
class ArchiveReader {
public:
    static void read(Archive& archive) {
        if (archive.range_.length == 0) throw failure("the file is empty");
        if (magic_of(archive.range_) == "PK") {
            read_zip(archive);
        } else {
            if (archive.range_.examined != nullptr) archive.range_.examined->at_ends = false;
            LegacyReader::read(archive);
        }
        const Value root[] = {archive.document_.root()};
        if (archive.range_.is_item) archive.document_.set_root(archive.document_.list(root));
    }

private:
    static std::string magic_of(const FileRange& range) {
        std::string magic(std::min<std::uint64_t>(range.length, 2), '\0');
        if (range.known != nullptr) return range.known->head.substr(0, magic.size());
        read_at(*range.fd, range.offset, std::as_writable_bytes(std::span{magic}), range.path);
        return magic;
    }

    static const ZipEntry& member(const Zip& zip, std::string_view name) {
        const ZipEntry* const entry = zip.find(name);
        if (entry == nullptr) throw failure("no member '{}/{}'", zip.root(), name);
        return *entry;
    }

    static bool is_big_endian(const Zip& zip) {
        const ZipEntry* const entry = zip.find("byteorder");
        const std::string order = entry == nullptr ? "little" : zip.read(*entry, 16);
        if (order != "little" && order != "big") throw failure("byteorder is '{}', not little or big", order);
        return order == "big";
    }

    static void read_zip(Archive& archive) {
        const Zip& zip = archive.zip_.emplace(archive.range_);
        if (archive.range_.examined != nullptr) archive.range_.examined->parts.emplace_back(0, 2);
        const ZipEntry& pickle = member(zip, "data.pkl");
        if (zip.find("constants.pkl") != nullptr) throw failure("a TorchScript archive, which contains code");
        member(zip, "version");
        archive.big_endian_ = is_big_endian(zip);
        const std::string bytes = zip.read(pickle, most_inflated * archive.range_.length);
        // A few bytes can inflate to many, so memory is limited by the size of the archive.
        const std::uint64_t limit = most_memory * archive.range_.length + small;
        archive.document_ = in_context([] { return "data.pkl"; }, [&] { return read_pickle(bytes, limit).document; });
        for (const StorageId& id : storages_of(archive.document_.root())) add_storage(archive, id);
    }

    static void add_storage(Archive& archive, const StorageId& id) {
        if (id.location == "meta") return;
        const auto known = archive.storages_.find(id.key);
        if (known == archive.storages_.end()) {
            const ZipEntry& entry = member(*archive.zip_, fmt::format("data/{}", id.key));
            const std::uint64_t payload = archive.zip_->payload(entry);
            archive.storages_[std::string{id.key}] = {archive.range_.offset + payload, entry.size, entry.deflated,
                                                      entry.stored_size};
            if (entry.size < id.bytes) throw too_short(id, entry.size);
        } else if (known->second.bytes < id.bytes) {
            throw too_short(id, known->second.bytes);
        }
    }

    static Error too_short(const StorageId& id, std::uint64_t found) {
        return failure("storage '{}' needs {} bytes, its record has {}", id.key, id.bytes, found);
    }

    static constexpr std::uint64_t most_inflated = 64;               // times the archive's size: enough for any text
    static constexpr std::uint64_t most_memory = 64;                 // for the unpickled tree, times the archive's size
    static constexpr std::uint64_t small = std::uint64_t{16} << 20;  // allowed for every archive
};

Archive Archive::open(const std::filesystem::path& path) {
    Fd fd = open_file(path, O_RDONLY);
    const std::uint64_t size = size_of_file(path);
    const auto owner = std::make_shared<const Fd>(std::move(fd));
    Archive archive = open(FileRange{owner.get(), path, 0, size});
    archive.owned_ = owner;
    return archive;
}

Archive Archive::open(const FileRange& range) {
    return in_context([&] { return range.path.string(); },
                      [&] {
                          Archive archive;
                          archive.range_ = range;
                          ArchiveReader::read(archive);
                          return archive;
                      });
}

void Archive::check_crcs() const {
    if (!zip_) return;
    in_context([&] { return range_.path.string(); },
               [&] {
                   for (const ZipEntry& entry : zip_->entries()) zip_->check_crc(entry);
               });
}

std::optional<std::size_t> Archive::storages_hash() const {
    if (!zip_) return std::nullopt;
    std::string content;
    for (const ZipEntry& entry : zip_->entries()) {
        if (!entry.name.starts_with("data/")) continue;
        if (entry.crc == 0 && entry.size > 0) return std::nullopt;
        content += fmt::format("{} {} {}\n", entry.name, entry.size, entry.crc);
    }
    return std::hash<std::string>{}(content);
}

StoredTensor read_tensor_blob(const FileRange& range) {
    const Archive archive = Archive::open(range);
    return in_context([&] { return range.path.string(); },
                      [&] {
                          const auto tensor = archive.tensor(archive.root());
                          if (!tensor) throw failure("expected a tensor, found {}", archive.root().describe());
                          if (tensor->compressed || archive.big_endian() || tensor->conjugated || tensor->negated)
                              throw failure("a tensor that is {}", tensor->compressed     ? "compressed"
                                                                   : archive.big_endian() ? "big-endian"
                                                                                          : "conjugated or negated");
                          return *tensor;
                      });
}

}  // namespace tpx::torch
