// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "formats/checkpoint.hpp"
#include "formats/encodings/dcp/locate.hpp"
#include "lib/core/coverage.hpp"
#include "lib/core/error.hpp"
#include "tests/support/checkpoints.hpp"

#include <zlib.h>

#include <numeric>

namespace tpx::test {

/// A checkpoint of archives, verified to be complete, with all payloads located.
inline formats::Checkpoint located(formats::Checkpoint checkpoint) {
    check_no_holes(checkpoint.catalogue);
    std::vector<std::uint32_t> all(checkpoint.catalogue.pieces.size());
    std::iota(all.begin(), all.end(), 0u);
    formats::locate_archives(checkpoint, all);
    return checkpoint;
}

/// The tensors of model and optimizer in a fixture's JSON file.
inline nlohmann::json expected_tensors(const std::filesystem::path& file) {
    const nlohmann::json fixture = nlohmann::json::parse(read_file(file));
    nlohmann::json all = fixture["tensors"];
    if (fixture.contains("optimizer")) all.update(fixture["optimizer"]);
    return all;
}

/// The same description for tensors in memory.
inline nlohmann::json describe(std::span<const Tensor> tensors, const std::map<std::string, std::string>& bytes) {
    nlohmann::json all;
    for (const Tensor& tensor : tensors)
        all[tensor.name] = {{"dtype", name(tensor.dtype)},
                            {"shape", std::vector<Index>(tensor.shape.begin(), tensor.shape.end())},
                            {"sha256", sha256(bytes.at(tensor.name))}};
    return all;
}

/// Writes `draft` with write_draft(), and the CRCs that it leaves open.
inline void write_archives(const Draft& draft, const std::map<std::string, std::string>& tensors,
                           const std::filesystem::path& directory) {
    write_draft(draft, tensors, directory);
    for (const Draft::CrcSlot& slot : draft.crc_slots) {
        const Piece& piece = draft.pieces.at(slot.piece);
        const std::uint32_t number = slot.length > 0 ? slot.file : piece.file;
        const std::string file = read_file(directory / draft.files[number].path);
        const bool range = slot.length > 0;
        const auto* payload = reinterpret_cast<const Bytef*>(file.data() + (range ? slot.begin : piece.offset));
        const auto size =
            range ? uInt(slot.length) : uInt(volume(piece.box) * itemsize(draft.tensors[piece.tensor].dtype));
        const auto crc = std::uint32_t(::crc32(0, payload, size));
        std::fstream out(directory / draft.files[slot.file].path, std::ios::binary | std::ios::in | std::ios::out);
        out.seekp(std::streamoff(slot.offset));
        for (int byte = 0; byte < 4; ++byte) out.put(char(crc >> 8 * byte));
    }
}

/// `tensors`, split along axis `axis` (or their last one) into `ranks` parts like torch.chunk.
inline formats::Content cut_content(const std::vector<Tensor>& tensors, int ranks, int axis) {
    formats::Content content;
    content.tensors = tensors;
    content.ranks = ranks;
    for (std::uint32_t t = 0; t < tensors.size(); ++t) {
        const Shape& shape = tensors[t].shape;
        for (int rank = 0; rank < ranks; ++rank) {
            Piece piece{t, 0, 0, whole(shape), {}, rank};
            if (shape.empty() && rank > 0) continue;
            if (!shape.empty()) {
                const int cut = std::min(axis, shape.size() - 1);
                piece.box[cut] = chunk({0, shape[cut]}, ranks, rank);
            }
            content.pieces.push_back(piece);
        }
    }
    return content;
}

/// The message of the Error that `body` throws; "" if it throws none.
template <class Body>
std::string error_of(Body body) {
    try {
        body();
    } catch (const Error& error) {
        return error.what();
    }
    return "";
}

}  // namespace tpx::test
