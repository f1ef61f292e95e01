// SPDX-License-Identifier: Apache-2.0
#include "formats/encodings/torch/archive_writer.hpp"
#include "formats/encodings/torch/legacy.hpp"
#include "formats/encodings/torch/pickle_writer.hpp"
#include "formats/encodings/torch/storage.hpp"
#include "lib/core/error.hpp"

#include <vector>

namespace tpx::torch {
namespace {

/// The stream's description of the machine that wrote it. No reader uses the sizes of C types in it.
std::string machine_pickle() {
    Document document;
    const auto sizes = document.dict(std::vector<Entry>{{document.string("short"), document.integer(2)},
                                                        {document.string("int"), document.integer(4)},
                                                        {document.string("long"), document.integer(4)}});
    return write_pickle(
        document.dict(std::vector<Entry>{{document.string("protocol_version"), document.integer(stream_protocol)},
                                         {document.string("little_endian"), Value::boolean(true)},
                                         {document.string("type_sizes"), sizes}}));
}

std::string keys_pickle(std::span<const StorageId> storages) {
    Document document;
    std::vector<Value> keys;
    for (const StorageId& id : storages) keys.push_back(document.string(id.key));
    return write_pickle(document.list(keys));
}

std::string count_bytes(std::uint64_t count) {
    std::string bytes;
    for (int k = 0; k < 8; ++k) bytes += static_cast<char>(count >> (8 * k));
    return bytes;
}

std::string preamble(Value root, std::span<const StorageId> storages) {
    PickleWriter magic, protocol;
    magic.value(Document{}.big_integer(stream_magic));
    protocol.integer(stream_protocol);
    return magic.finish() + protocol.finish() + machine_pickle() + write_pickle(root, StorageIds::of_streams) +
           keys_pickle(storages);
}

}  // namespace

ArchiveFrame frame_stream(Value root, const Holes& holes, const Contents& given) {
    const std::vector<StorageId> storages = distinct_storages(root);
    ArchiveFrame frame;
    std::string run = preamble(root, storages);
    for (const StorageId& id : storages) {
        const auto hole = holes.find(id.key);
        const auto content = given.find(id.key);
        if (hole == holes.end() && content == given.end()) throw failure("storage '{}' is not given", id.key);
        const std::uint64_t bytes = hole == holes.end() ? content->second.size() : hole->second;
        run += count_bytes(bytes / static_cast<std::uint64_t>(itemsize(id.dtype)));
        if (hole == holes.end()) {
            run += content->second;
            continue;
        }
        frame.size += run.size();
        frame.holes.emplace(std::string{id.key}, ArchiveFrame::Hole{frame.size, bytes, {}});
        frame.size += bytes;
        frame.runs.push_back(std::move(run));
        run.clear();
    }
    frame.size += run.size();
    frame.runs.push_back(std::move(run));
    return frame;
}

}  // namespace tpx::torch
