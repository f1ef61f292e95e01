// SPDX-License-Identifier: Apache-2.0
#include "lib/exec/window.hpp"

#include <doctest/doctest.h>
#include <unistd.h>

#include <algorithm>
#include <fstream>
#include <numeric>
#include <string>
#include <vector>

using namespace tpx;

namespace {

// A temporary file of the bytes 0, 1, 2, ...
class CountingFile {
public:
    explicit CountingFile(std::size_t size) : files_{{std::filesystem::temp_directory_path() / "tpx-window-XXXXXX"}} {
        std::string name = files_[0].path.string();
        ::close(::mkstemp(name.data()));
        files_[0].path = name;
        std::string content(size, '\0');
        for (std::size_t k = 0; k < size; ++k) content[k] = static_cast<char>(k);
        std::ofstream{name, std::ios::binary} << content;
    }
    ~CountingFile() { std::filesystem::remove(files_[0].path); }
    CountingFile(const CountingFile&) = delete;
    CountingFile& operator=(const CountingFile&) = delete;

    SourceFiles open() const { return SourceFiles{files_}; }

private:
    std::vector<SourceFile> files_;
};

// Rows of a matrix of bytes of `width` columns that begins at `offset`.
Image matrix(std::uint64_t offset, Index rows, Index columns, Index width, bool pack) {
    const Piece piece{0, 0, offset, {{0, rows}, {0, columns}}, {width, 1}, -1};
    Image image = image_of(piece, 1, piece.box);
    image.pack = pack;
    return image;
}

struct Written {
    std::uint64_t offset;
    std::size_t size;
    friend bool operator==(const Written&, const Written&) = default;
};

std::vector<Written> written(std::vector<Image> images) {
    Arena arena{1 << 20};
    Window window{images};
    window.place_for_writing(arena);
    std::vector<Written> all;
    window.write([&](std::uint32_t, std::uint64_t offset, std::span<const std::byte> bytes) {
        all.push_back({offset, bytes.size()});
    });
    std::ranges::sort(all, {}, &Written::offset);
    return all;
}

}  // namespace

TEST_CASE("an image is read to the places given by its strides, stored or packed") {
    const CountingFile file{4096};
    for (bool pack : {false, true}) {
        std::vector<Image> images = {matrix(100, 5, 7, 30, pack), matrix(110, 5, 7, 30, pack)};
        Arena arena{1 << 20};
        Window window{images};
        window.place_for_reading(arena);
        SourceFiles files = file.open();
        // If stored, the two share everything between the beginning of one and the end of the other.
        CHECK(window.read(files) == (pack ? 70 : 4 * 30 + 7 + 10));
        for (std::size_t k = 0; k < 2; ++k) {
            for (Index row = 0; row < 5; ++row) {
                const Box box{{row, row + 1}, {3, 4}};
                const std::byte byte = window.at(k)[place_in(images[k], box)];
                CHECK(byte == static_cast<std::byte>(100 + 10 * k + 30 * std::size_t(row) + 3));
            }
        }
    }
}

TEST_CASE("images that fill each other's gaps are written in one go") {
    CHECK(written({matrix(0, 4, 10, 30, false), matrix(10, 4, 20, 30, false)}) == std::vector<Written>{{0, 120}});
    CHECK(written({matrix(200, 1, 50, 50, false), matrix(0, 4, 50, 50, false)}) == std::vector<Written>{{0, 250}});
}

TEST_CASE("bytes outside all images are not written") {
    const std::vector<Written> rows = {{0, 10}, {30, 10}, {60, 10}};
    CHECK(written({matrix(0, 3, 10, 30, false)}) == rows);
    CHECK(written({matrix(0, 3, 10, 30, true)}) == rows);
    // One byte of each row is missing.
    CHECK(written({matrix(0, 3, 10, 30, false), matrix(10, 3, 19, 30, false)}).size() == 6);
    CHECK(written({matrix(0, 1, 10, 30, false), matrix(11, 1, 10, 30, false)}).size() == 2);
}

TEST_CASE("memory has the same offset in its page as the bytes have in the file, and an end") {
    Arena arena{1 << 16};
    CHECK(reinterpret_cast<std::uintptr_t>(arena.take(100, 12345)) % 4096 == 12345 % 4096);
    CHECK(reinterpret_cast<std::uintptr_t>(arena.take(100, 4095)) % 4096 == 4095);
    CHECK_THROWS_AS(arena.take(1 << 16, 0), Error);
    arena.clear();
    CHECK_NOTHROW(arena.take(1 << 16, 0));
}

TEST_CASE("short runs close to each other are kept as stored, others are packed") {
    const auto packed = [](Index rows, Index columns, Index width) {
        Image image = matrix(0, rows, columns, width, false);
        choose_packing(image);
        return image.pack;
    };
    CHECK_FALSE(packed(1, 1000, 1000));
    CHECK_FALSE(packed(100, 512, 1024));
    CHECK(packed(100, 512, 100000));
    CHECK(packed(10000, 100, 1024));
    CHECK(packed(100, 4096, 8192));
}
