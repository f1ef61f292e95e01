// SPDX-License-Identifier: Apache-2.0
#include "formats/encodings/torch/zip.hpp"
#include "formats/encodings/torch/zip_records.hpp"
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

/// Inflates the `stored_size` bytes that calls of `next(done, most)` return, and calls `each` with chunks of at most 1
/// MiB of the result. Holds at most two chunks in memory.
template <class Next, class Each>
void inflate_all(std::uint64_t stored_size, std::uint64_t size, Next&& next, Each&& each) {
    if (size / Coding::max_inflation > stored_size) throw failure("{} bytes cannot inflate to {}", stored_size, size);
    z_stream stream{};
    if (inflateInit2(&stream, -MAX_WBITS) != Z_OK) throw failure("zlib cannot start");
    const std::unique_ptr<z_stream, int (*)(z_stream*)> owner{&stream, inflateEnd};
    std::string in, out(std::min<std::uint64_t>(chunk, size + 1), '\0');  // one byte more, to notice longer content
    std::uint64_t fed = 0, filled = 0;
    int status = Z_OK;
    while (status == Z_OK && filled <= size) {
        if (stream.avail_in == 0 && fed < stored_size) {
            in = next(fed, std::min<std::uint64_t>(chunk, stored_size - fed));
            fed += in.size();
            stream.next_in = reinterpret_cast<Bytef*>(in.data());
            stream.avail_in = static_cast<uInt>(in.size());
        }
        stream.next_out = reinterpret_cast<Bytef*>(out.data());
        stream.avail_out = static_cast<uInt>(out.size());
        status = inflate(&stream, Z_NO_FLUSH);
        const std::size_t made = out.size() - stream.avail_out;
        filled += made;
        if (filled <= size) each(std::string_view{out}.substr(0, made));
    }
    if (status != Z_STREAM_END || filled != size)
        throw failure("deflated content is damaged ({} of {} bytes inflated)", std::min(filled, size), size);
}

std::uint32_t crc_of(std::uint32_t seed, std::string_view bytes) {
    return crc32_gzip_refl(seed, reinterpret_cast<const unsigned char*>(bytes.data()), bytes.size());
}

/// False for members without CRC-32: torch.save stores 0 if it is configured to compute none.
bool has_crc(const ZipEntry& entry) { return entry.crc != 0; }

void expect_crc(const ZipEntry& entry, std::uint32_t crc) {
    if (crc != entry.crc)
        throw failure("damaged: the content has CRC-32 {:08x}, the zip directory records {:08x}", crc, entry.crc);
}

}  // namespace

std::string Zip::read(const ZipEntry& entry, std::uint64_t limit) const {
    return in_context([&] { return entry.name; },
                      [&] {
                          if (entry.size > limit) throw failure("{} bytes, at most {} are allowed", entry.size, limit);
                          std::string content;
                          if (entry.deflated) {
                              content.reserve(entry.size);
                              inflate_entry(entry, [&](std::string_view bytes) { content += bytes; });
                          } else {
                              content = reader_.read(payload(entry), entry.size);
                          }
                          reader_.examine(entry.record + zip::crc_at, zip::crc_size);
                          if (has_crc(entry)) expect_crc(entry, crc_of(0, content));
                          return content;
                      });
}

template <class Each>
void Zip::inflate_entry(const ZipEntry& entry, Each&& each) const {
    const std::uint64_t start = payload(entry);
    inflate_all(
        entry.stored_size, entry.size,
        [&](std::uint64_t done, std::uint64_t most) { return reader_.read(start + done, most); }, each);
}

void Zip::check_crc(const ZipEntry& entry, std::string_view content) {
    if (has_crc(entry)) in_context([&] { return entry.name; }, [&] { expect_crc(entry, crc_of(0, content)); });
}

void Zip::check_crc(const ZipEntry& entry) const {
    if (!has_crc(entry)) return;
    in_context([&] { return entry.name; },
               [&] {
                   std::uint32_t crc = 0;
                   const auto add = [&](std::string_view bytes) { crc = crc_of(crc, bytes); };
                   const std::uint64_t start = payload(entry);
                   if (entry.deflated) inflate_entry(entry, add);
                   for (std::uint64_t done = 0; done < entry.size && !entry.deflated; done += chunk)
                       add(reader_.read(start + done, std::min<std::uint64_t>(chunk, entry.size - done)));
                   expect_crc(entry, crc);
               });
}

}  // namespace tpx::torch
