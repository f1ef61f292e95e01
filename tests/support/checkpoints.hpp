// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "lib/core/catalogue.hpp"
#include "lib/core/file.hpp"
#include "tests/support/decoded.hpp"
#include "tests/support/scratch.hpp"
#include "tests/support/sha256.hpp"

#include <doctest/doctest.h>
#include <fcntl.h>
#include <unistd.h>

#include <nlohmann/json.hpp>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <map>
#include <random>
#include <string>
#include <vector>

namespace tpx::test {

inline void write_text(const std::filesystem::path& path, std::string_view text) {
    std::filesystem::create_directories(path.parent_path());
    std::ofstream(path, std::ios::binary) << text;
}

/// The folder of checkpoints written by the real frameworks, in $TPX_FIXTURES or ../shared/fixtures; empty if there is
/// none, after a message that says so.
inline std::filesystem::path fixtures() {
    const char* given = std::getenv("TPX_FIXTURES");
    const std::filesystem::path folder = given != nullptr ? given : "../shared/fixtures";
    if (std::filesystem::is_directory(folder)) return folder;
    MESSAGE("skipped: no folder " << folder.string() << " (set TPX_FIXTURES)");
    return {};
}

/// Calls `visit(offset in the whole tensor, offset in the piece)`, both in elements, for each element of a piece.
template <class Visit>
void for_each_element(const Shape& shape, const Piece& piece, Visit visit) {
    const Strides whole_strides = row_major(shape);
    Shape at(piece.box.size());
    for (Index left = volume(piece.box); left > 0; --left) {
        Index whole_offset = 0, piece_offset = 0;
        for (int k = 0; k < at.size(); ++k) {
            whole_offset += (piece.box[k].begin + at[k]) * whole_strides[k];
            piece_offset += at[k] * piece.strides[k];
        }
        visit(whole_offset, piece_offset);
        for (int k = at.size() - 1; k >= 0 && ++at[k] == piece.box[k].size(); --k) at[k] = 0;
    }
}

/// The bytes of each whole tensor, in C order, assembled element by element. The pieces must be located.
inline std::map<std::string, std::string> assemble(const Catalogue& catalogue) {
    std::map<std::string, std::string> tensors;
    for (const Tensor& tensor : catalogue.tensors)
        tensors[tensor.name].resize(volume(tensor.shape) * info(tensor.dtype).bits / 8);
    std::vector<std::string> files(catalogue.files.size());
    for (const Piece& piece : catalogue.pieces) {
        std::string& file = files[piece.file];
        if (file.empty()) file = read_file(catalogue.path(piece.file));
        if (const auto& coding = catalogue.files[piece.file].coding; coding && file.size() != coding->size + 1)
            file = decoded(file, *coding) + '.';  // marks decoded files
        const Tensor& tensor = catalogue.tensors[piece.tensor];
        std::string& whole_one = tensors[tensor.name];
        const std::size_t size = itemsize(tensor.dtype);
        if (size == 0) {  // less than a byte per element: the tensor is never split
            whole_one = file.substr(piece.offset, whole_one.size());
            continue;
        }
        for_each_element(tensor.shape, piece, [&](Index to, Index from) {
            whole_one.replace(to * size, size, file, piece.offset + from * size, size);
        });
    }
    return tensors;
}

/// Compares names, dtypes, shapes and bytes with the `tensors` of a fixture's JSON file.
inline void check_against(const Catalogue& catalogue, const std::filesystem::path& expected) {
    CAPTURE(expected.string());
    const nlohmann::json tensors = nlohmann::json::parse(read_file(expected))["tensors"];
    CHECK(catalogue.tensors.size() == tensors.size());
    const std::map<std::string, std::string> bytes = assemble(catalogue);
    for (const Tensor& tensor : catalogue.tensors) {
        CAPTURE(tensor.name);
        REQUIRE(tensors.contains(tensor.name));
        const nlohmann::json& want = tensors[tensor.name];
        CHECK(name(tensor.dtype) == want["dtype"].get<std::string>());
        CHECK(std::vector<Index>(tensor.shape.begin(), tensor.shape.end()) == want["shape"].get<std::vector<Index>>());
        CHECK(sha256(bytes.at(tensor.name)) == want["sha256"].get<std::string>());
    }
}

/// Writes `draft` to `directory`: its fixed bytes, its copies, and each piece from `tensors` (bytes of whole tensors).
inline void write_draft(const Draft& draft, const std::map<std::string, std::string>& tensors,
                        const std::filesystem::path& directory) {
    std::vector<std::string> files;
    for (const FileEntry& file : draft.files) files.emplace_back(file.size, '\0');
    for (const Draft::Fixed& fixed : draft.fixed)
        files.at(fixed.file).replace(fixed.offset, fixed.bytes.size(), fixed.bytes);
    for (const Draft::Copy& copy : draft.copies)
        files.at(copy.file).replace(copy.offset, copy.length, read_file(copy.source), copy.source_offset, copy.length);
    for (const Piece& piece : draft.pieces) {
        const Tensor& tensor = draft.tensors.at(piece.tensor);
        const std::size_t size = itemsize(tensor.dtype);
        const std::string& bytes = tensors.at(tensor.name);
        if (size == 0) files.at(piece.file).replace(piece.offset, bytes.size(), bytes);
        if (size == 0) continue;
        for_each_element(tensor.shape, piece, [&](Index from, Index to) {
            files.at(piece.file).replace(piece.offset + to * size, size, bytes, from * size, size);
        });
    }
    for (std::size_t k = 0; k < files.size(); ++k) {
        CHECK(files[k].size() == draft.files[k].size);
        write_text(directory / draft.files[k].path, files[k]);
    }
}

}  // namespace tpx::test
