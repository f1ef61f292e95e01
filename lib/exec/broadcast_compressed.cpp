// SPDX-License-Identifier: Apache-2.0
#include "lib/exec/broadcast_compressed.hpp"

#include "lib/core/error.hpp"

#include <zlib.h>

#include <string_view>

namespace tpx {
namespace {

std::string compressed(std::string_view bytes) {
    uLong size = compressBound(bytes.size());
    std::string packed(size, '\0');
    const int result = compress2(reinterpret_cast<Bytef*>(packed.data()), &size,
                                 reinterpret_cast<const Bytef*>(bytes.data()), bytes.size(), Z_BEST_SPEED);
    if (result != Z_OK) throw failure("cannot compress metadata: {}", zError(result));
    packed.resize(size);
    return packed;
}

std::string uncompressed(std::string_view packed, std::size_t bytes) {
    std::string all(bytes, '\0');
    uLong size = bytes;
    const int result = uncompress(reinterpret_cast<Bytef*>(all.data()), &size,
                                  reinterpret_cast<const Bytef*>(packed.data()), packed.size());
    if (result != Z_OK) throw failure("cannot decompress metadata: {}", zError(result));
    return all;
}

}  // namespace

std::uint64_t broadcast_compressed(const mpi::Comm& comm, std::string& bytes) {
    if (comm.size() == 1) return 0;
    std::string size, packed;
    mpi::all_or_none(comm, [&] {
        if (comm.rank() != 0) return;
        size = std::to_string(bytes.size());
        packed = compressed(bytes);
    });
    mpi::broadcast(comm, size);
    mpi::broadcast(comm, packed);
    mpi::all_or_none(comm, [&] {
        if (comm.rank() != 0) bytes = uncompressed(packed, std::stoull(size));
    });
    return packed.size();
}

std::uint64_t compressed_size(const std::string& bytes) { return compressed(bytes).size(); }

}  // namespace tpx
