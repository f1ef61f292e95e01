// SPDX-License-Identifier: Apache-2.0
#include "formats/encodings/torch/archive.hpp"
#include "lib/core/error.hpp"

#include <algorithm>
#include <cstring>

namespace tpx::torch {
namespace {

/// The most bytes that a tensor may have if its storage has fewer (strides of 0).
constexpr std::uint64_t most_repeated = std::uint64_t{1} << 28;

/// Flips the sign of the IEEE number of `size` bytes at `number`, little-endian.
void negate(char* number, std::size_t size) { number[size - 1] = static_cast<char>(number[size - 1] ^ 0x80); }

/// Converts one element of `size` bytes to little-endian and to its logical value.
void normalize(char* element, std::size_t size, const StoredTensor& tensor, bool big_endian) {
    const std::size_t part = is_complex(tensor.dtype) ? size / 2 : size;
    for (std::size_t at = 0; at < size; at += part) {
        if (big_endian) std::reverse(element + at, element + at + part);
        if (tensor.negated) negate(element + at, part);
    }
    if (tensor.conjugated) negate(element + size - part, part);
}

}  // namespace

std::string Archive::storage(std::string_view key) const {
    const auto found = storages_.find(key);
    if (found == storages_.end()) throw failure("{}: no storage '{}'", range_.path.string(), key);
    const Storage& place = found->second;
    const ZipEntry* entry = zip_ ? zip_->find(fmt::format("data/{}", key)) : nullptr;
    if (place.compressed) return zip_->read(*entry, place.bytes);
    std::string bytes(place.bytes, '\0');
    read_at(*range_.fd, place.offset, std::as_writable_bytes(std::span{bytes}), range_.path);
    if (entry != nullptr && entry->size == bytes.size())
        in_context([&] { return range_.path.string(); }, [&] { Zip::check_crc(*entry, bytes); });
    return bytes;
}

std::string Archive::elements(const StoredTensor& tensor) const {
    const auto size = static_cast<std::size_t>(itemsize(tensor.dtype));
    const auto count = static_cast<std::size_t>(volume(tensor.shape));
    if (count == 0) return {};
    const std::string stored = storage(tensor.storage);
    if (count > std::max<std::uint64_t>(stored.size(), most_repeated) / size)
        throw failure("a tensor of {} elements in a storage of {} bytes", count, stored.size());
    std::string result(count * size, '\0');
    Shape index(tensor.shape.size());
    for (std::size_t i = 0; i < count; ++i) {
        std::size_t from = tensor.storage_offset;
        for (int k = 0; k < index.size(); ++k) from += static_cast<std::size_t>(index[k] * tensor.strides[k]);
        std::memcpy(result.data() + i * size, stored.data() + from * size, size);
        normalize(result.data() + i * size, size, tensor, big_endian_);
        for (int k = index.size(); k-- > 0 && ++index[k] == tensor.shape[k];) index[k] = 0;
    }
    return result;
}

}  // namespace tpx::torch
