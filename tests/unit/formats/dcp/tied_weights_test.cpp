// SPDX-License-Identifier: Apache-2.0
#include "formats/dcp/tied_weights.hpp"

#include "lib/core/file.hpp"
#include "tests/support/checkpoints.hpp"

#include <doctest/doctest.h>

#include <algorithm>
#include <array>
#include <fstream>

namespace tpx::formats {
namespace {

std::uint32_t number_of(const Checkpoint& checkpoint, std::string_view name) {
    const auto& tensors = checkpoint.catalogue.tensors;
    return static_cast<std::uint32_t>(std::ranges::find(tensors, name, &Tensor::name) - tensors.begin());
}

std::ptrdiff_t count(const Checkpoint& checkpoint, Role role) { return std::ranges::count(checkpoint.roles, role); }

/// Adds one to the last byte of a tensor that has a single piece.
void change(const std::filesystem::path& directory, std::string_view name) {
    Checkpoint checkpoint = open(directory);
    const auto& pieces = checkpoint.catalogue.pieces;
    const auto found = std::ranges::find(pieces, number_of(checkpoint, name), &Piece::tensor);
    const std::array number{static_cast<std::uint32_t>(found - pieces.begin())};
    locate(checkpoint, number);
    const Piece& piece = pieces[number[0]];
    const Tensor& tensor = checkpoint.catalogue.tensors[piece.tensor];
    const auto last = piece.offset + static_cast<std::uint64_t>(volume(tensor.shape) * itemsize(tensor.dtype)) - 1;
    std::fstream file{checkpoint.catalogue.path(piece.file), std::ios::in | std::ios::out | std::ios::binary};
    file.seekg(static_cast<std::streamoff>(last));
    const int byte = file.get();
    file.seekp(static_cast<std::streamoff>(last));
    file.put(static_cast<char>(byte + 1));
}

}  // namespace

TEST_CASE("an optimizer that numbers parameters contains one of several tied parameters") {
    const Checkpoint checkpoint = open("testdata/training/dcp-tied");
    CHECK(count(checkpoint, Role::exp_avg) == 11);
    CHECK(count(checkpoint, Role::state) == 0);
    const auto first = number_of(checkpoint, "optim.state.0.exp_avg");
    CHECK(checkpoint.parameters.at(first) == "model.embed_tokens.weight");
    CHECK(checkpoint.parameters.at(number_of(checkpoint, "optim.state.8.exp_avg")) ==
          "model.layers.0.input_layernorm.weight");

    const test::Scratch scratch;
    std::filesystem::copy("testdata/training/dcp-tied", scratch.path() / "other");
    change(scratch.path() / "other", "model.lm_head.weight");
    const Checkpoint other = open(scratch.path() / "other");
    CHECK(count(other, Role::exp_avg) == 0);
    CHECK(count(other, Role::state) == 33);
    CHECK(other.notes.size() == 1);
}

TEST_CASE("matrices count as copies only if all of their bytes are equal") {
    const Checkpoint checkpoint = open("testdata/training/dcp-tied");
    const auto embedding = number_of(checkpoint, "model.model.embed_tokens.weight");
    const auto output = number_of(checkpoint, "model.lm_head.weight");
    std::vector<std::uint32_t> all;
    for (std::uint32_t t = 0; t < checkpoint.catalogue.tensors.size(); ++t) all.push_back(t);
    CHECK(repeated_matrices(checkpoint, std::array{embedding, output}) ==
          std::map<std::uint32_t, std::uint32_t>{{output, embedding}});
    CHECK(repeated_matrices(checkpoint, std::array{embedding}).empty());
    CHECK(repeated_matrices(checkpoint, all).size() == 1);
    CHECK(repeated_matrices(open("testdata/training/dcp-numbered"), std::array{0u, 1u, 2u, 3u, 4u, 5u}).empty());
    CHECK(repeated_matrices(open("testdata/llama-small/hf"), std::array{0u, 1u}).empty());
}

}  // namespace tpx::formats
