// SPDX-License-Identifier: Apache-2.0
#include "formats/hdf5/hdf5.hpp"

#include "lib/core/coverage.hpp"
#include "lib/core/error.hpp"
#include "tests/support/checkpoints.hpp"

#include <doctest/doctest.h>

#include <algorithm>
#include <functional>

namespace tpx::formats {
namespace {

namespace fs = std::filesystem;

std::string message(const std::function<void()>& body) {
    try {
        body();
    } catch (const Error& error) {
        return error.what();
    }
    return "";
}

nlohmann::json describe(const Catalogue& catalogue) {
    check_no_holes(catalogue);
    const auto bytes = test::assemble(catalogue);
    nlohmann::json all;
    for (const Tensor& tensor : catalogue.tensors)
        all[tensor.name] = {{"dtype", name(tensor.dtype)},
                            {"shape", std::vector<Index>(tensor.shape.begin(), tensor.shape.end())},
                            {"sha256", test::sha256(bytes.at(tensor.name))}};
    return all;
}

nlohmann::json expected(const fs::path& file) {
    const nlohmann::json fixture = nlohmann::json::parse(read_file(file));
    nlohmann::json dotted;
    for (const auto& [path, tensor] : fixture["tensors"].items()) {
        std::string name = path;
        std::ranges::replace(name, '/', '.');
        dotted[name] = tensor;
    }
    return dotted;
}

}  // namespace

TEST_CASE("every type of number that HDF5 stores is read") {
    const Checkpoint checkpoint = open_hdf5("testdata/hdf5/good/types.h5");
    CHECK(describe(checkpoint.catalogue) == expected("testdata/hdf5/good/types.json"));
    CHECK(checkpoint.iteration == 12);
    CHECK(std::get<std::int64_t>(checkpoint.config.at("hidden_size")) == 6);
    REQUIRE(checkpoint.notes.size() == 1);
    CHECK(checkpoint.notes[0] == "types.h5: dataset 'words': ignored (text)");
}

TEST_CASE("every storage layout with no filters other than gzip, shuffle and fletcher32 is read") {
    const Checkpoint checkpoint = open_hdf5("testdata/hdf5/good/storage.h5");
    CHECK(describe(checkpoint.catalogue) == expected("testdata/hdf5/good/storage.json"));
    // A chunk that is stored without filters needs no decoding.
    std::size_t raw = 0;
    for (const Piece& piece : checkpoint.catalogue.pieces)
        raw += checkpoint.catalogue.tensors[piece.tensor].name == "chunked" &&
               !checkpoint.catalogue.files[piece.file].coding;
    CHECK(raw == 9);
    CHECK(std::ranges::count(checkpoint.notes, "tensor 'unwritten': was never written, and reads as its fill value") ==
          1);
}

TEST_CASE("datasets with h5py's lzf filter are read") {
    const Checkpoint checkpoint = open_hdf5("testdata/hdf5/good/lzf.h5");
    CHECK(describe(checkpoint.catalogue) == expected("testdata/hdf5/good/lzf.json"));
}

TEST_CASE("datasets with HDF5's scale-offset filter have the values that libhdf5 reads") {
    const Checkpoint checkpoint = open_hdf5("testdata/hdf5/good/scaleoffset.h5");
    CHECK(describe(checkpoint.catalogue) == expected("testdata/hdf5/good/scaleoffset.json"));
}

TEST_CASE("links to nothing and attributes with references are named, and everything else is read") {
    const Checkpoint checkpoint = open_hdf5("testdata/hdf5/good/unread.h5");
    CHECK(describe(checkpoint.catalogue) == expected("testdata/hdf5/good/unread.json"));
    const auto has = [&](std::string_view part) {
        return std::ranges::any_of(checkpoint.notes,
                                   [&](const std::string& note) { return note.find(part) != note.npos; });
    };
    CHECK(has("unread.h5: 'g/gone': ignored (a link to '/absent/w', which the file does not contain)"));
    CHECK(has("unread.h5: 'g/chain': ignored (a link to '/g/gone', which the file does not contain)"));
    CHECK(has(
        "ignored 3 attributes, whose types tpx does not read, such as references to objects ('axis@REFERENCE_LIST'"));
}

TEST_CASE("a user block moves all addresses") {
    const auto types = expected("testdata/hdf5/good/types.json");
    const auto found = describe(open_hdf5("testdata/hdf5/good/user_block.h5").catalogue);
    CHECK(found["chunked"]["sha256"] == types["whole.i4"]["sha256"]);
    CHECK(found["whole.i4"] == types["whole.i4"]);
    CHECK(found["scalar"] == types["scalar"]);
}

TEST_CASE("unsupported datasets are refused with file, dataset and cause") {
    const nlohmann::json refusals = nlohmann::json::parse(read_file("testdata/hdf5/corrupt.json"));
    for (const auto& [file, cause] : refusals.items()) {
        const fs::path path = fs::path{"testdata/hdf5/corrupt"} / file;
        const std::string told = message([&] { open_hdf5(path); });
        CAPTURE(told);
        CHECK(told.starts_with(path.string() + ": "));
        CHECK(told.find(cause.get<std::string>()) != told.npos);
    }
}

TEST_CASE("a truncated file is refused, and a changed byte does no harm") {
    const test::Scratch scratch;
    const std::string whole = read_file("testdata/hdf5/corrupt/two_names.h5");
    for (std::size_t length = 0; length < whole.size(); length += 97) {
        test::write_text(scratch.path() / "cut.h5", whole.substr(0, length));
        CHECK(message([&] { open_hdf5(scratch.path() / "cut.h5"); }) != "");
    }
}

TEST_CASE("the plain HDF5 fixture is read") {
    const auto folder = test::fixtures();
    if (folder.empty()) return;
    const Checkpoint checkpoint = open_hdf5(folder / "hdf5/h5-plain/ckpt");
    CHECK(describe(checkpoint.catalogue) == expected(folder / "hdf5/h5-plain/fixture.json"));
}

}  // namespace tpx::formats
