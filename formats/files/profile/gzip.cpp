// SPDX-License-Identifier: Apache-2.0
#include "formats/files/profile/gzip.hpp"

#include "lib/core/error.hpp"
#include "lib/core/units.hpp"

#include <zlib.h>

#include <algorithm>
#include <limits>

namespace tpx::formats {

struct GzipInflater::Stream {
    z_stream z{};
    bool at_end = false;  // of a gzip file; another one may follow
    std::string chunk = std::string(std::size_t{1} << 16, '\0');
};

bool is_gzip(std::string_view bytes) { return bytes.starts_with("\x1F\x8B"); }

GzipInflater::GzipInflater(std::string_view file) : file_{file}, stream_{std::make_unique<Stream>()} {
    if (inflateInit2(&stream_->z, MAX_WBITS + 16) != Z_OK) throw failure("{}: zlib cannot start", file_);
}

GzipInflater::~GzipInflater() { inflateEnd(&stream_->z); }

void GzipInflater::inflate(std::string_view piece, const std::function<void(std::string_view)>& sink) {
    z_stream& z = stream_->z;
    std::string& chunk = stream_->chunk;
    while (!piece.empty()) {
        const std::size_t size = std::min<std::size_t>(piece.size(), std::numeric_limits<uInt>::max());
        z.next_in = reinterpret_cast<Bytef*>(const_cast<char*>(piece.data()));
        z.avail_in = static_cast<uInt>(size);
        do {
            if (stream_->at_end && inflateReset(&z) != Z_OK) throw failure("{}: zlib cannot start again", file_);
            z.next_out = reinterpret_cast<Bytef*>(chunk.data());
            z.avail_out = static_cast<uInt>(chunk.size());
            const int status = ::inflate(&z, Z_NO_FLUSH);
            if (status != Z_OK && status != Z_STREAM_END && status != Z_BUF_ERROR)
                throw failure("{}: damaged gzip file", file_);
            stream_->at_end = status == Z_STREAM_END;
            sink(std::string_view{chunk}.substr(0, chunk.size() - z.avail_out));
        } while (z.avail_in > 0 || (z.avail_out == 0 && !stream_->at_end));
        piece.remove_prefix(size);
    }
}

void GzipInflater::finish() const {
    if (!stream_->at_end) throw failure("{}: truncated gzip file", file_);
}

std::string inflate_gzip(std::string_view bytes, std::string_view file, std::size_t most) {
    GzipInflater inflater{file};
    std::string text;
    inflater.inflate(bytes, [&](std::string_view piece) {
        text += piece;
        if (text.size() > most)
            throw failure("{}: more than {} when decompressed", file, format_bytes(static_cast<double>(most)));
    });
    inflater.finish();
    return text;
}

}  // namespace tpx::formats
