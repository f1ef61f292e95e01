// SPDX-License-Identifier: Apache-2.0
#include "formats/files/data/count_samples.hpp"

#include "lib/core/error.hpp"
#include "lib/core/file.hpp"

#include <fcntl.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <string_view>
#include <vector>

namespace tpx::formats {
namespace {

namespace fs = std::filesystem;

/// Reads the header of megatron.core.datasets.indexed_dataset: magic, version, dtype, and the numbers of sequences and
/// of document boundaries. The header is followed by the length (4 bytes) and offset (8 bytes) of each sequence, each
/// boundary (8 bytes) and, in multimodal datasets, one byte for each sequence.
Index count_sequences(const fs::path& path) {
    constexpr std::string_view magic{"MMIDIDX\0\0", 9};
    std::array<std::byte, 34> header{};
    const std::uint64_t size = size_of_file(path);
    if (size < header.size()) throw failure("{}: is truncated ({} bytes)", path.string(), size);
    read_at(open_file(path, O_RDONLY), 0, header, path);
    if (std::memcmp(header.data(), magic.data(), magic.size()) != 0)
        throw failure("{}: is not the index of a Megatron dataset", path.string());
    const auto number = [&](std::size_t at) {
        std::uint64_t value = 0;
        for (std::size_t byte = 8; byte-- > 0;) value = value << 8 | std::to_integer<std::uint64_t>(header[at + byte]);
        return value;
    };
    if (number(9) != 1) throw failure("{}: has version {} of the index format, not 1", path.string(), number(9));
    const std::uint64_t sequences = number(18), boundaries = number(26);
    const std::uint64_t most = size / 8;
    const std::uint64_t expected =
        sequences > most || boundaries > most ? 0 : header.size() + sequences * 12 + boundaries * 8;
    if (size != expected && size != expected + sequences)
        throw failure("{}: has {} bytes, which does not match its {} sequences and {} document boundaries",
                      path.string(), size, sequences, boundaries);
    return static_cast<Index>(sequences);
}

Index count_lines(const fs::path& path) {
    constexpr std::uint64_t step = 1 << 20;
    const std::uint64_t size = size_of_file(path);
    const Fd file = open_file(path, O_RDONLY);
    std::vector<std::byte> bytes;
    Index lines = 0;
    for (std::uint64_t at = 0; at < size; at += bytes.size()) {
        bytes.resize(std::min(step, size - at));
        read_at(file, at, bytes, path);
        lines += std::ranges::count(bytes, std::byte{'\n'});
    }
    return lines + (size > 0 && bytes.back() != std::byte{'\n'} ? 1 : 0);
}

}  // namespace

Index count_samples(const fs::path& path) {
    if (path.extension() == ".idx") return count_sequences(path);
    if (path.extension() == ".txt") return count_lines(path);
    throw failure("{}: only the samples of .idx and .txt files are counted; add samples = N", path.string());
}

}  // namespace tpx::formats
