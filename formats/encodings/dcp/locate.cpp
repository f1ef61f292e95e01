// SPDX-License-Identifier: Apache-2.0
#include "formats/encodings/dcp/locate.hpp"

#include "formats/encodings/dcp/archive_forms.hpp"
#include "lib/core/error.hpp"

#include <algorithm>
#include <string>
#include <tuple>
#include <vector>

namespace tpx::formats {
namespace {

Error named(const std::string& cause, const Catalogue& catalogue, const Piece& piece) {
    return failure("{}: tensor '{}': {}", catalogue.path(piece.file).string(), catalogue.tensors[piece.tensor].name,
                   cause);
}

/// Whether the elements follow each other without gaps; the strides of axes with one element are ignored.
bool in_one_run(const torch::StoredTensor& stored) {
    const Strides dense = row_major(stored.shape);
    for (int axis = 0; axis < stored.shape.size(); ++axis) {
        if (stored.shape[axis] != 1 && stored.strides[axis] != dense[axis]) return false;
    }
    return true;
}

/// Makes `piece` refer to the payload of `stored`, whose offset is relative to the archive, instead of to the archive.
void locate_one(const Catalogue& catalogue, Piece& piece, const torch::StoredTensor& stored,
                const ArchiveSlice& inside) {
    const Tensor& tensor = catalogue.tensors[piece.tensor];
    if (stored.dtype != tensor.dtype)
        throw failure("dtype is {}, but the metadata records {}", tpx::name(stored.dtype), tpx::name(tensor.dtype));
    if (inside.elements > 0) {
        if (volume(stored.shape) != inside.elements || !in_one_run(stored))
            throw failure("shape is {}, but the metadata records {} contiguous elements", to_string(stored.shape),
                          inside.elements);
        piece.offset += stored.offset + static_cast<std::uint64_t>(inside.begin * itemsize(tensor.dtype));
        return;
    }
    if (stored.shape != sizes(piece.box))
        throw failure("shape is {}, but the metadata records {}", to_string(stored.shape), to_string(sizes(piece.box)));
    piece.offset += stored.offset;
    piece.strides = stored.strides;
}

/// Pieces of one file, sorted by offset.
using PiecesOfFile = std::span<const std::uint32_t>;

FileArchives archives_of(const Checkpoint& checkpoint, PiecesOfFile pieces) {
    FileArchives file{checkpoint.catalogue.path(checkpoint.catalogue.pieces[pieces.front()].file), {}};
    for (const std::uint32_t index : pieces) {
        const std::uint64_t offset = checkpoint.catalogue.pieces[index].offset;
        if (file.places.empty() || file.places.back().offset != offset)
            file.places.push_back({offset, checkpoint.archives[index]});
    }
    return file;
}

void locate_in_file(Checkpoint& checkpoint, PiecesOfFile pieces, const FileArchives& file, const ArchiveForms& forms) {
    Catalogue& catalogue = checkpoint.catalogue;
    std::size_t archive = 0;
    for (const std::uint32_t index : pieces) {
        Piece& piece = catalogue.pieces[index];
        if (piece.offset != file.places[archive].offset) ++archive;
        if (archive == forms.of_archives.size()) throw named(forms.cause, catalogue, piece);
        try {
            locate_one(catalogue, piece, forms.of(archive),
                       checkpoint.archive_slices.empty() ? ArchiveSlice{} : checkpoint.archive_slices[index]);
        } catch (const Error& error) {
            throw named(error.what(), catalogue, piece);
        }
        checkpoint.archives[index] = 0;
    }
}

}  // namespace

void locate_archives(Checkpoint& checkpoint, std::span<const std::uint32_t> pieces) {
    Catalogue& catalogue = checkpoint.catalogue;
    std::vector<std::uint32_t> order;
    for (std::uint32_t index : pieces)
        if (checkpoint.archives[index] > 0) order.push_back(index);
    std::sort(order.begin(), order.end(), [&](std::uint32_t a, std::uint32_t b) {
        const Piece& left = catalogue.pieces[a];
        const Piece& right = catalogue.pieces[b];
        return std::tie(left.file, left.offset) < std::tie(right.file, right.offset);
    });
    std::vector<PiecesOfFile> groups;
    std::vector<FileArchives> files;
    for (std::size_t begin = 0, end = 0; begin < order.size(); begin = end) {
        const auto file_of = [&](std::size_t k) { return catalogue.pieces[order[k]].file; };
        while (end < order.size() && file_of(end) == file_of(begin)) ++end;
        groups.push_back(PiecesOfFile{order}.subspan(begin, end - begin));
        files.push_back(archives_of(checkpoint, groups.back()));
    }
    const std::vector<ArchiveForms> forms = forms_of(files);
    for (std::size_t k = 0; k < forms.size(); ++k) locate_in_file(checkpoint, groups[k], files[k], forms[k]);
}

}  // namespace tpx::formats
