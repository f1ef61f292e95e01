// SPDX-License-Identifier: Apache-2.0
#include "formats/encodings/torch/archive.hpp"

#include "lib/core/error.hpp"
#include "lib/core/file.hpp"
#include "tests/support/sha256.hpp"

#include <doctest/doctest.h>

#include <nlohmann/json.hpp>

#include <cstdlib>
#include <cstring>
#include <map>

using namespace tpx;
using torch::Archive;

namespace {

const std::filesystem::path data = "testdata/torch";

/// The files that the real torch.save wrote, or an empty path and a message if there are none.
std::filesystem::path fixtures() {
    const char* const given = std::getenv("TPX_FIXTURES");
    const auto folder = std::filesystem::path{given != nullptr ? given : "../shared/fixtures"} / "torch-save";
    if (std::filesystem::is_directory(folder)) return folder;
    MESSAGE("skipped: no folder " << folder.string() << " (set TPX_FIXTURES)");
    return {};
}

std::vector<Index> list(const Tuple<Index>& values) { return {values.begin(), values.end()}; }

std::vector<float> floats(const std::string& bytes) {
    std::vector<float> result(bytes.size() / sizeof(float));
    std::memcpy(result.data(), bytes.data(), bytes.size());
    return result;
}

/// Opens a file and uses all functions of a reader.
void read_all(const std::filesystem::path& path) {
    const Archive archive = Archive::open(path);
    for (const auto& [name, tensor] : archive.tensors()) archive.elements(tensor);
    archive.check_crcs();
}

void compare(const Archive& archive, const nlohmann::json& expected) {
    const auto tensors = archive.tensors();
    CHECK(tensors.size() == expected.size());
    for (const auto& [name, tensor] : tensors) {
        CAPTURE(name);
        REQUIRE(expected.contains(name));
        const nlohmann::json& want = expected[name];
        CHECK(tpx::name(tensor.dtype) == want["dtype"].get<std::string>());
        CHECK(list(tensor.shape) == want["shape"].get<std::vector<Index>>());
        CHECK(list(tensor.strides) == want["stride"].get<std::vector<Index>>());
        CHECK(tensor.storage_offset == want["storage_offset"].get<std::uint64_t>());
        CHECK(test::sha256(archive.elements(tensor)) == want["sha256"].get<std::string>());
    }
}

}  // namespace

TEST_CASE("tensors, views and values of a small archive, stored, deflated or a stream") {
    for (const char* file : {"good/plain.pt", "good/deflated.pt", "good/legacy.pt"}) {
        CAPTURE(file);
        const Archive archive = Archive::open(data / file);
        CHECK(archive.root().at("step").as_int() == 7);
        std::map<std::string, torch::StoredTensor> tensors;
        for (const auto& [name, tensor] : archive.tensors()) tensors[name] = tensor;
        CHECK(floats(archive.elements(tensors.at("w"))) == std::vector<float>{0, 1, 2, 3, 4, 5});
        if (tensors.size() == 1) continue;
        CHECK(archive.root().at("run").as_string() == "\xc3\xa9");
        CHECK(floats(archive.elements(tensors.at("t"))) == std::vector<float>{0, 3, 1, 4, 2, 5});
        CHECK(floats(archive.elements(tensors.at("row"))) == std::vector<float>{3, 4, 5});
        CHECK(tensors.at("row").storage == tensors.at("w").storage);
        archive.check_crcs();
    }
    const Archive plain = Archive::open(data / "good/plain.pt");
    const auto tensors = plain.tensors();
    CHECK(tensors[0].name == "w");
    CHECK(tensors[0].tensor.offset % 64 == 0);
    CHECK(tensors[2].tensor.offset == tensors[0].tensor.offset + 12);
    CHECK(read_file(data / "good/plain.pt").substr(tensors[2].tensor.offset, 12) == plain.elements(tensors[2].tensor));
}

TEST_CASE("objects of other libraries are read without their code") {
    const Archive archive = Archive::open(data / "good/objects.pt");
    CHECK(archive.root().at("args").attribute_at("tp").as_int() == 2);
    CHECK(archive.root().at("args").attribute_at("lr").as_real() == 0.5);
    CHECK(archive.root().at("names").items().size() == 2);
    CHECK(archive.root().at("raw").as_bytes() == std::string_view{"\0\xff", 2});
    CHECK(archive.root().at("kind").describe() == "object builtins.getattr");
    CHECK(archive.root().at("size").items()[1].as_int() == 3);
    CHECK(archive.root().at("dtype").class_name() == "bfloat16");
    CHECK(archive.tensors().empty());
}

TEST_CASE("each broken file is refused in one line that names it and what is wrong") {
    const std::map<std::string, std::string> causes{
        {"call-system.pt", "data.pkl: byte 10: refused: the pickle names posix.system, which would run code"},
        {"call-eval.pt", "data.pkl: byte 10: refused: the pickle names builtins.eval, which would run code"},
        {"call-getattr.pt",
         "data.pkl: byte 61: refused: the pickle calls getattr(torch.serialization, 'os'), which would run code"},
        {"stack-underflow.pt", "data.pkl: byte 2: the stack is empty"},
        {"long-string.pt", "data.pkl: byte 2: 4294967280 bytes are expected, 1 are left"},
        {"no-stop.pt", "data.pkl: damaged: the content has CRC-32 a4eb6f63, the zip directory records 56896f2d"},
        {"record-short.pt", "storage '0' needs 24 bytes, its record has 23"},
        {"record-missing.pt", "no member 'archive/data/0'"},
        {"no-version.pt", "no member 'archive/version'"},
        {"beyond-storage.pt",
         "tensor 'w': shape [2, 3] and strides [4, 1] at element 0 reach beyond storage '0' of 6 elements"},
        {"negative-stride.pt", "tensor 'w': a negative dimension or stride (-3)"},
        {"huge-shape.pt", "tensor 'w': shape [1099511627776, 1099511627776] and strides [1, 1] are too large"},
        {"many-dimensions.pt", "tensor 'w': 9 dimensions, at most 8 can be read"},
        {"two-roots.pt", "two root folders, 'archive' and 'another'"},
        {"truncated.pt", "no end of a zip directory: not a zip archive, or truncated (771 bytes)"},
        {"overlap.pt", "member 'version' overlaps another"},
        {"twice.pt", "member 'data/0' appears twice"},
        {"inflates-to-more.pt", "data.pkl: 1048576 bytes, at most 34112 are allowed"},
        {"payload-changed.pt", "data/0: damaged: the content has CRC-32 a3c1ca20, the zip directory records 91e79017"},
        {"legacy-magic.pt", "neither a zip archive nor a stream of torch.save"},
        {"legacy-count.pt", "storage '0' has 1099511627776 elements of 4 bytes, 24 bytes are left"},
        {"empty.pt", "the file is empty"}};
    std::size_t files = 0;
    for (const auto& file : std::filesystem::directory_iterator{data / "corrupt"}) {
        const std::string name = file.path().filename();
        CAPTURE(name);
        REQUIRE(causes.contains(name));
        const std::string message = file.path().string() + ": " + causes.at(name);
        CHECK_THROWS_WITH_AS(read_all(file.path()), message.c_str(), Error);
        ++files;
    }
    CHECK(files == causes.size());
}

TEST_CASE("a blob must be a single plain tensor") {
    CHECK_THROWS_AS(Archive::open("testdata/torch/none.pt"), Error);
    for (const char* file : {"good/plain.pt", "good/objects.pt"}) {
        const auto path = data / file;
        const Fd fd = open_file(path, 0);
        CHECK_THROWS_AS(torch::read_tensor_blob({&fd, path, 0, size_of_file(path)}), Error);
    }
}

TEST_CASE("files that the real torch.save wrote contain the original tensors") {
    const auto folder = fixtures();
    if (folder.empty()) return;
    const auto expected = nlohmann::json::parse(read_file(folder / "pt-good/fixture.json"))["tensors"];
    for (const auto& [file, tensors] : expected.items()) {
        CAPTURE(file);
        const Archive archive = Archive::open(folder / "pt-good/ckpt" / file);
        CHECK(archive.big_endian() == (file == "big-endian.pt"));
        compare(archive, tensors);
    }
}

TEST_CASE("broken torch.save files of the collection are refused") {
    const auto folder = fixtures();
    if (folder.empty()) return;
    const auto corrupt = nlohmann::json::parse(read_file(folder / "corrupt/corrupt.json"));
    for (const auto& file : corrupt["files"]) {
        const auto path = folder / "corrupt" / file["file"].get<std::string>();
        CAPTURE(path.string());
        CHECK_THROWS_AS(read_all(path), Error);
    }
}
