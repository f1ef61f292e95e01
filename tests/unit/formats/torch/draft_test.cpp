// SPDX-License-Identifier: Apache-2.0
#include "formats/checkpoint.hpp"
#include "formats/encodings/torch/archive.hpp"
#include "formats/encodings/torch/nest.hpp"
#include "formats/encodings/torch/tree_copy.hpp"
#include "formats/torch/driver.hpp"
#include "formats/torch/torch_file.hpp"
#include "lib/core/error.hpp"

#include <doctest/doctest.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <map>
#include <string>

using namespace tpx;
using namespace tpx::formats;
using torch::Archive;
using torch::Document;
using torch::Entry;
using torch::Value;

namespace {

namespace fs = std::filesystem;

/// The sparse file of a draft, with zeros as payloads.
class SparseFile {
public:
    explicit SparseFile(const Draft& draft) : path_{fs::temp_directory_path() / "tpx-draft-test-XXXXXX"} {
        std::string name = path_.string();
        REQUIRE(::close(::mkstemp(name.data())) == 0);
        path_ = name;
        fs::resize_file(path_, draft.files.at(0).size);
        std::fstream file{path_, std::ios::in | std::ios::out | std::ios::binary};
        for (const Draft::Fixed& fixed : draft.fixed) {
            file.seekp(static_cast<std::streamoff>(fixed.offset));
            file.write(fixed.bytes.data(), static_cast<std::streamsize>(fixed.bytes.size()));
        }
        REQUIRE(file.good());
    }
    ~SparseFile() { fs::remove(path_); }

    const fs::path& path() const { return path_; }

private:
    fs::path path_;
};

Content content_of(std::vector<Tensor> tensors) {
    Content content{.tensors = std::move(tensors)};
    return content;
}

/// Checks that every tensor of the draft is where the file says.
void check_places(const Draft& draft, const Archive& archive) {
    std::map<std::string, torch::StoredTensor> found;
    for (const torch::NamedTensor& named : archive.tensors()) found[named.name] = named.tensor;
    CHECK(found.size() == draft.tensors.size());
    for (const Tensor& tensor : draft.tensors) {
        REQUIRE(found.contains(tensor.name));
        CHECK(found[tensor.name].dtype == tensor.dtype);
        CHECK(found[tensor.name].shape == tensor.shape);
    }
    for (const Piece& piece : draft.pieces) {
        CHECK((archive.is_stream() || piece.offset % 64 == 0));
        CHECK(found[draft.tensors[piece.tensor].name].offset == piece.offset);
    }
}

}  // namespace

TEST_CASE("tensors of every torch dtype are where the new file says") {
    std::vector<Tensor> tensors;
    for (const DTypeInfo& type : dtypes()) {
        if (type.torch.empty() || itemsize(type.dtype) == 0) continue;
        tensors.push_back({fmt::format("{}.a", type.name), type.dtype, {3, 5}});
        tensors.push_back({fmt::format("{}.b", type.name), type.dtype, {}});
        tensors.push_back({fmt::format("{}.c", type.name), type.dtype, {0, 4}});
    }
    for (const Format format : {&torch_driver, &torch_legacy_driver}) {
        const Draft draft = draft_torch(format, content_of(tensors));
        const SparseFile file{draft};
        check_places(draft, Archive::open(file.path()));
        CHECK(open(file.path()).format == format);
    }
    CHECK_THROWS_WITH_AS(draft_torch(&torch_driver, content_of({{"a", DType::f4, {2}}})),
                         "tensor 'a': torch cannot store tensors of dtype f4", Error);
}

TEST_CASE("files beyond 4 GiB and beyond 65535 members are zip64") {
    std::vector<Tensor> tensors{
        {"small", DType::u8, {1}}, {"large", DType::f32, {5, 1 << 28}}, {"behind", DType::bf16, {7}}};
    const Draft large = draft_torch(&torch_driver, content_of(tensors));
    CHECK(large.files[0].size > (std::uint64_t{5} << 30));
    const SparseFile large_file{large};
    check_places(large, Archive::open(large_file.path()));

    tensors.clear();
    for (int k = 0; k < 66'000; ++k) tensors.push_back({fmt::format("t{}", k), DType::u8, {1}});
    const Draft many = draft_torch(&torch_driver, content_of(tensors));
    const SparseFile many_file{many};
    check_places(many, Archive::open(many_file.path()));
}

TEST_CASE("views are located in the tensor that contains their bytes") {
    Checkpoint checkpoint{.format = &torch_driver};
    checkpoint.catalogue.files.push_back({"a.pt", 1000});
    const auto add = [&](const std::string& name, DType dtype, const Shape& shape, std::uint64_t offset,
                         const Strides& strides) {
        const auto number = static_cast<std::uint32_t>(checkpoint.catalogue.tensors.size());
        checkpoint.catalogue.tensors.push_back({name, dtype, shape});
        checkpoint.catalogue.pieces.push_back(
            {.tensor = number, .offset = offset, .box = whole(shape), .strides = strides});
    };
    add("transposed", DType::f32, {3, 4}, 64, {1, 3});  // of a base that comes later
    add("base", DType::f32, {4, 3}, 64, {3, 1});
    add("tied", DType::f32, {4, 3}, 64, {3, 1});
    add("row", DType::f32, {3}, 64 + 12, {1});
    add("other type", DType::i32, {3}, 64 + 12, {1});
    add("beyond", DType::f32, {12}, 64 + 24, {1});
    add("gaps", DType::f32, {2, 2}, 500, {4, 1});
    const auto views = find_views(checkpoint);
    CHECK(views.size() == 3);
    CHECK(views.at(0).tensor == 1);
    CHECK(views.at(2).tensor == 1);
    CHECK(views.at(3).begin == 3);
}

TEST_CASE("objects become plain data, without classes") {
    Document from;
    const auto text = [&](const char* word) { return from.string(word); };
    const Value args = from.object(from.global("argparse", "Namespace"), from.tuple({}), torch::Construction::allocate);
    from.set_state(args, from.dict(std::vector<Entry>{{text("lr"), from.real(0.5)}}));
    const Value member =
        from.object(from.global("some.enums", "Kind"), from.tuple(std::vector<Value>{from.integer(3)}));
    const Value path = from.object(from.global("pathlib", "PosixPath"),
                                   from.tuple(std::vector<Value>{text("/"), text("a"), text("b")}));
    const Value root = from.list(std::vector<Value>{args, member, path, from.global("torch", "float32"), args});
    Document to;
    torch::TreeCopy plain{to, false};
    const Value copy = plain.copy(root, [](Value) { return std::nullopt; });
    CHECK(copy.items()[0].at("lr").as_real() == 0.5);
    CHECK(copy.items()[1].as_int() == 3);
    CHECK(copy.items()[2].as_string() == "/a/b");
    CHECK(copy.items()[3].is(torch::Kind::global));
    CHECK(copy.items()[4] == copy.items()[0]);
    torch::TreeCopy same{to, true};
    CHECK(equal(same.copy(root, [](Value) { return std::nullopt; }), root));
    Value deep = from.list();
    for (int k = 0; k < 100'000; ++k) deep = from.list(std::vector<Value>{deep});
    CHECK(equal(same.copy(deep, [](Value) { return std::nullopt; }), deep));
    const Value self = from.list();
    from.append(self, std::vector<Value>{self});
    CHECK_THROWS_AS(same.copy(self, [](Value) { return std::nullopt; }), Error);
}

TEST_CASE("paths become nested dicts and lists") {
    Document document;
    torch::Nest nest;
    using Key = torch::Nest::Key;
    nest.put(std::vector<Key>{{"a"}, {"1", true}}, document.integer(11));
    nest.put(std::vector<Key>{{"a"}, {"0", true}}, document.integer(10));
    nest.put(std::vector<Key>{{"b"}, {"7", true}}, document.integer(7));
    const Value root = nest.build(document);
    CHECK(root.at("a").items()[0].as_int() == 10);
    CHECK(root.at("b").entries()[0].key.as_int() == 7);
    CHECK_THROWS_AS(nest.put(std::vector<Key>{{"a"}}, Value{}), Error);
    CHECK_THROWS_AS(nest.put(std::vector<Key>{{"b"}, {"7", true}, {"x"}}, Value{}), Error);
}
