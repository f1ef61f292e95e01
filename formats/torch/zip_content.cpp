// SPDX-License-Identifier: Apache-2.0
#include "formats/torch/zip.hpp"
#include "lib/core/coding.hpp"
#include "lib/core/error.hpp"

#include <isa-l/crc.h>
#include <zlib.h>

#include <algorithm>
#include <memory>
#include <vector>

namespace tpx::torch {
namespace {

constexpr std::size_t chunk = std::size_t{1} << 20;

std::string inflated(std::string_view stored, std::uint64_t size) {
    if (size / Coding::most_inflation > stored.size())
        throw failure("{} bytes cannot inflate to {}", stored.size(), size);
    std::string content(size, '\0');
    z_stream stream{};
    if (inflateInit2(&stream, -MAX_WBITS) != Z_OK) throw failure("zlib cannot start");
    const std::unique_ptr<z_stream, int (*)(z_stream*)> owner{&stream, inflateEnd};
    std::size_t fed = 0, filled = 0;
    int status = Z_OK;
    while (status == Z_OK) {
        stream.next_in = reinterpret_cast<Bytef*>(const_cast<char*>(stored.data() + fed));
        stream.avail_in = static_cast<uInt>(std::min(chunk, stored.size() - fed));
        stream.next_out = reinterpret_cast<Bytef*>(content.data() + filled);
        stream.avail_out = static_cast<uInt>(std::min(chunk, content.size() - filled));
        const uInt in = stream.avail_in, out = stream.avail_out;
        status = inflate(&stream, Z_NO_FLUSH);
        fed += in - stream.avail_in;
        filled += out - stream.avail_out;
    }
    if (status != Z_STREAM_END || filled != size)
        throw failure("deflated content is damaged ({} of {} bytes inflated)", filled, size);
    return content;
}

std::uint32_t crc_of(std::uint32_t seed, std::string_view bytes) {
    return crc32_gzip_refl(seed, reinterpret_cast<const unsigned char*>(bytes.data()), bytes.size());
}

}  // namespace

std::string Zip::read(const ZipEntry& entry, std::uint64_t limit) const {
    return in_context([&] { return entry.name; },
                      [&] {
                          if (entry.size > limit) throw failure("{} bytes, at most {} are allowed", entry.size, limit);
                          std::string stored = reader_.read(payload(entry), entry.stored_size);
                          return entry.deflated ? inflated(stored, entry.size) : stored;
                      });
}

void Zip::check_crc(const ZipEntry& entry) const {
    std::uint32_t crc = 0;
    if (entry.deflated) {
        crc = crc_of(0, read(entry, range().length * Coding::most_inflation));
    } else {
        const std::uint64_t start = payload(entry);
        for (std::uint64_t done = 0; done < entry.size; done += chunk)
            crc = crc_of(crc, reader_.read(start + done, std::min<std::uint64_t>(chunk, entry.size - done)));
    }
    if (crc != entry.crc)
        throw failure("{}: the content has CRC-32 {:08x}, the directory tells {:08x}", entry.name, crc, entry.crc);
}

}  // namespace tpx::torch
