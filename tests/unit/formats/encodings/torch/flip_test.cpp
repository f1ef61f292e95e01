// SPDX-License-Identifier: Apache-2.0
#include "formats/encodings/torch/archive.hpp"
#include "formats/encodings/torch/pickle_writer.hpp"
#include "lib/core/error.hpp"
#include "lib/core/file.hpp"
#include "tests/support/memory_file.hpp"

#include <doctest/doctest.h>

#include <cstdlib>
#include <filesystem>
#include <string>

using namespace tpx;

namespace {

/// The content of an archive as one text: its tree, and the elements of its tensors.
std::string content_of(const std::string& bytes) {
    const test::MemoryFile file{bytes};
    const torch::Archive archive = torch::Archive::open(file.range());
    std::string content = torch::write_pickle(archive.root());
    for (const auto& [name, tensor] : archive.tensors()) content += name + archive.elements(tensor);
    return content;
}

struct Flips {
    int tried = 0;
    int refused = 0;
    int same = 0;  ///< flips in bytes without meaning: times, attributes, padding
    int changed = 0;
};

Flips flip(const std::string& original, std::size_t stride) {
    const std::string content = content_of(original);
    Flips flips;
    for (std::size_t at = 0; at < original.size(); at += stride) {
        std::string bytes = original;
        bytes[at] = static_cast<char>(bytes[at] ^ (1 << at % 8));
        ++flips.tried;
        try {
            ++(content_of(bytes) == content ? flips.same : flips.changed);
        } catch (const Error&) {
            ++flips.refused;
        }
    }
    return flips;
}

}  // namespace

TEST_CASE("T21: no flipped bit in a torch.save archive changes what is read from it") {
    for (const char* file : {"testdata/torch/good/plain.pt", "testdata/torch/good/deflated.pt"}) {
        CAPTURE(file);
        const std::string original = read_file(file);
        const Flips flips = flip(original, 1);
        CHECK(flips.tried == static_cast<int>(original.size()));
        CHECK(flips.refused > flips.tried / 3);
        CHECK(flips.changed == 0);
    }
    for (const char* file :
         {"testdata/megatron/f16/dist/iter_0000010/common.pt", "testdata/megatron/f16/dist/common.pt"}) {
        if (!std::filesystem::exists(file)) continue;
        // Tests one byte in seven, as CI has little time.
        const char* every = std::getenv("TPX_FLIP_ALL");
        const Flips flips = flip(read_file(file), every != nullptr ? 1 : 7);
        CHECK(flips.changed == 0);
        CHECK(flips.refused > 0);
    }
}
