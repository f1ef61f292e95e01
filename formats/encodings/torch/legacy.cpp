// SPDX-License-Identifier: Apache-2.0
#include "formats/encodings/torch/legacy.hpp"

#include "formats/encodings/torch/archive.hpp"
#include "formats/encodings/torch/pickle.hpp"
#include "formats/encodings/torch/storage.hpp"
#include "lib/core/error.hpp"

#include <algorithm>
#include <cstring>
#include <map>

namespace tpx::torch {
namespace {

/// The five pickles a stream starts with.
struct Preamble {
    bool little_endian = true;
    Document object;
    std::vector<std::string> keys;
    std::uint64_t length = 0;
};

Pickle next(std::string_view stream, std::uint64_t& position) {
    Pickle pickle = read_pickle(stream.substr(position));
    position += pickle.length;
    return pickle;
}

void check_magic(std::string_view stream) {
    std::uint64_t position = 0;
    try {
        const Pickle pickle = next(stream, position);
        if (pickle.document.root().as_bytes() == stream_magic) return;
    } catch (const Error&) {
        // Whatever it is, it is not a torch.save file.
    }
    throw failure("neither a zip archive nor a stream of torch.save");
}

Preamble read_preamble(std::string_view stream) {
    Preamble result;
    next(stream, result.length);
    const std::int64_t version = next(stream, result.length).document.root().as_int();
    if (version != stream_protocol) throw failure("stream protocol {} is not {}", version, stream_protocol);
    result.little_endian = next(stream, result.length).document.root().at("little_endian").as_bool();
    result.object = std::move(next(stream, result.length).document);
    const Pickle keys = next(stream, result.length);
    for (const Value key : keys.document.root().items()) result.keys.emplace_back(key.as_string());
    return result;
}

/// The length of the pickles is known only after they are read, so this tries longer and longer parts of the file.
Preamble read_preamble(const FileRange& range) {
    constexpr std::uint64_t first = std::uint64_t{1} << 16;
    for (std::uint64_t size = std::min(first, range.length);; size = std::min(range.length, size * 8)) {
        std::string stream(size, '\0');
        read_at(*range.fd, range.offset, std::as_writable_bytes(std::span{stream}), range.path);
        if (size == std::min(first, range.length)) check_magic(stream);
        try {
            return read_preamble(stream);
        } catch (const Error&) {
            if (size == range.length) throw;
        }
    }
}

}  // namespace

void LegacyReader::read(Archive& archive) {
    const FileRange& range = archive.range_;
    Preamble preamble = read_preamble(range);
    archive.document_ = std::move(preamble.object);
    archive.big_endian_ = !preamble.little_endian;

    std::map<std::string_view, StorageId> ids;
    for (const StorageId& id : storages_of(archive.document_.root())) ids.emplace(id.key, id);
    std::uint64_t position = preamble.length;
    for (const std::string& key : preamble.keys) {
        const auto id = ids.find(key);
        if (id == ids.end()) throw failure("storage '{}' belongs to no tensor", key);
        std::uint64_t elements = 0;
        if (range.length - position < sizeof elements) throw failure("the file ends before storage '{}'", key);
        read_at(*range.fd, range.offset + position, std::as_writable_bytes(std::span{&elements, 1}), range.path);
        position += sizeof elements;
        const std::uint64_t size = static_cast<std::uint64_t>(itemsize(id->second.dtype));
        if (elements > (range.length - position) / size)
            throw failure("storage '{}' has {} elements of {} bytes, {} bytes are left", key, elements, size,
                          range.length - position);
        if (elements * size < id->second.bytes)
            throw failure("storage '{}' needs {} bytes, it has {}", key, id->second.bytes, elements * size);
        archive.storages_[key] = {range.offset + position, elements * size, false};
        position += elements * size;
    }
    for (const auto& [key, id] : ids)
        if (!archive.storages_.contains(key) && id.location != "meta") throw failure("no storage '{}'", key);
}

}  // namespace tpx::torch
