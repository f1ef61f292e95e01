// SPDX-License-Identifier: Apache-2.0
#include "lib/exec/broadcast_compressed.hpp"

#include "lib/core/error.hpp"

#include <zlib.h>

#include <string_view>

namespace tpx {
namespace {

/// Compresses bytes with zlib part by part, so that no worst-case buffer as large as the input is needed.
class Compressor {
public:
    Compressor() { check(deflateInit(&stream_, Z_BEST_SPEED)); }
    ~Compressor() { deflateEnd(&stream_); }
    Compressor(const Compressor&) = delete;
    Compressor& operator=(const Compressor&) = delete;

    void add(std::string_view bytes, bool is_last, std::string& packed) {
        stream_.next_in = reinterpret_cast<Bytef*>(const_cast<char*>(bytes.data()));  // which zlib only reads
        stream_.avail_in = static_cast<uInt>(bytes.size());
        do {
            stream_.next_out = reinterpret_cast<Bytef*>(room_.data());
            stream_.avail_out = static_cast<uInt>(room_.size());
            const int result = deflate(&stream_, is_last ? Z_FINISH : Z_NO_FLUSH);
            if (result != Z_BUF_ERROR && result != Z_STREAM_END) check(result);  // Z_BUF_ERROR: nothing was left to do
            packed.append(room_, 0, room_.size() - stream_.avail_out);
        } while (stream_.avail_out == 0);
    }

private:
    static void check(int result) {
        if (result != Z_OK) throw failure("cannot compress metadata: {}", zError(result));
    }

    z_stream stream_{};
    std::string room_ = std::string(std::size_t{1} << 18, '\0');
};

std::string compressed(std::string_view bytes) {
    constexpr std::size_t part = std::size_t{1} << 20;
    Compressor compressor;
    std::string packed;
    for (; bytes.size() > part; bytes.remove_prefix(part)) compressor.add(bytes.substr(0, part), false, packed);
    compressor.add(bytes, true, packed);
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
