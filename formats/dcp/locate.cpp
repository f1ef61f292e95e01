// SPDX-License-Identifier: Apache-2.0
#include "formats/dcp/dcp.hpp"
#include "formats/torch/tensor_blobs.hpp"
#include "lib/core/error.hpp"
#include "lib/core/file.hpp"
#include "lib/core/file_answers.hpp"
#include "lib/core/fingerprint.hpp"

#include <fcntl.h>

#include <algorithm>
#include <cstring>
#include <map>
#include <string>
#include <tuple>
#include <vector>

namespace tpx::formats {
namespace {

/// An archive in a file, and the first piece in it.
struct BlobPlace {
    std::uint64_t offset = 0;
    std::uint64_t length = 0;
    std::uint32_t piece = 0;
};

/// Where the tensors of a file's archives are: for each archive the number of its form, whose offset is relative to the
/// archive. Archives of equal tensors have equal forms.
struct Forms {
    std::vector<torch::StoredTensor> forms;  ///< without the name of the storage
    std::vector<std::uint32_t> of_archives;
};

template <class Value>
void put(std::string& bytes, const Value& value) {
    bytes.append(reinterpret_cast<const char*>(&value), sizeof value);
}

template <class Value>
void take(std::string_view& bytes, Value& value) {
    std::memcpy(&value, bytes.data(), sizeof value);
    bytes.remove_prefix(sizeof value);
}

std::string packed(const Forms& forms) {
    std::string bytes;
    put(bytes, std::uint64_t{forms.forms.size()});
    for (const torch::StoredTensor& form : forms.forms) {
        put(bytes, form.dtype);
        put(bytes, form.shape.size());
        for (const Index size : form.shape) put(bytes, size);
        for (const Index stride : form.strides) put(bytes, stride);
        put(bytes, form.offset);
    }
    for (const std::uint32_t form : forms.of_archives) put(bytes, form);
    return bytes;
}

Forms unpacked(std::string_view bytes) {
    Forms forms;
    std::uint64_t count = 0;
    take(bytes, count);
    for (; count > 0; --count) {
        torch::StoredTensor& form = forms.forms.emplace_back();
        int rank = 0;
        take(bytes, form.dtype);
        take(bytes, rank);
        form.shape = form.strides = Shape(rank);
        for (Index& size : form.shape) take(bytes, size);
        for (Index& stride : form.strides) take(bytes, stride);
        take(bytes, form.offset);
    }
    forms.of_archives.resize(bytes.size() / sizeof(std::uint32_t));
    for (std::uint32_t& form : forms.of_archives) take(bytes, form);
    return forms;
}

/// `error` with the tensor's name after the file's, which the archive's reader has put in front already.
Error named(const Error& error, const std::string& file, const std::string& tensor) {
    std::string_view cause = error.what();
    if (cause.starts_with(file + ": ")) cause.remove_prefix(file.size() + 2);
    return failure("{}: tensor '{}': {}", file, tensor, cause);
}

/// Reads the archives of one file. Short ones that follow each other are read together.
class BlobFile {
public:
    BlobFile(const Catalogue& catalogue, std::uint32_t file, const Fd& fd) : catalogue_{catalogue} {
        range_.fd = &fd;
        range_.path = catalogue.path(file);
        range_.ends = ends_of_one_tensor;
    }

    /// The forms of the archives at `places`, which are sorted.
    Forms read(std::span<const BlobPlace> places) {
        Forms result;
        std::map<std::tuple<DType, Shape, Strides, std::uint64_t>, std::uint32_t> numbers;
        for (std::size_t k = 0; k < places.size(); ++k) {
            torch::StoredTensor form = read_one(places, k);
            const auto next = static_cast<std::uint32_t>(numbers.size());
            const auto [number, is_new] =
                numbers.try_emplace({form.dtype, form.shape, form.strides, form.offset}, next);
            if (is_new) result.forms.push_back(std::move(form));
            result.of_archives.push_back(number->second);
        }
        return result;
    }

private:
    static constexpr std::uint64_t ends_of_one_tensor = 1024;  // on each side of its payload are fewer
    static constexpr std::uint64_t read_together = std::uint64_t{256} << 10;

    torch::StoredTensor read_one(std::span<const BlobPlace> places, std::size_t k) {
        range_.offset = places[k].offset;
        range_.length = places[k].length;
        try {
            torch::StoredTensor form = blobs_.read(range_, range_.is_short() ? bytes_of(places, k) : "");
            form.offset -= range_.offset;
            return form;
        } catch (const Error& error) {
            const Piece& piece = catalogue_.pieces[places[k].piece];
            throw named(error, range_.path.string(), catalogue_.tensors[piece.tensor].name);
        }
    }

    /// The bytes of a short archive.
    std::string_view bytes_of(std::span<const BlobPlace> places, std::size_t k) {
        const auto end_of = [&](std::size_t i) { return places[i].offset + places[i].length; };
        if (places[k].offset < begin_ || end_of(k) > begin_ + bytes_.size()) {
            std::uint64_t end = end_of(k);
            for (std::size_t next = k + 1; next < places.size(); ++next) {
                if (end_of(next) - places[k].offset > read_together) break;
                end = std::max(end, end_of(next));
            }
            try {
                read_bytes(places[k].offset, end);
            } catch (const Error&) {  // of a later archive, perhaps
                read_bytes(places[k].offset, end_of(k));
            }
        }
        return std::string_view{bytes_}.substr(places[k].offset - begin_, places[k].length);
    }

    void read_bytes(std::uint64_t begin, std::uint64_t end) {
        bytes_.resize(end - begin);
        read_at(*range_.fd, begin, std::as_writable_bytes(std::span{bytes_}), range_.path);
        begin_ = begin;
    }

    const Catalogue& catalogue_;
    torch::FileRange range_;
    torch::TensorBlobs blobs_;
    std::uint64_t begin_ = 0;
    std::string bytes_;
};

/// The same by way of the current FileAnswers, so that other processes get the forms and not what they were read from.
Forms forms_of(const Catalogue& catalogue, std::uint32_t file, std::span<const BlobPlace> places) {
    const std::filesystem::path path = catalogue.path(file);
    const Fd fd = open_file(path, O_RDONLY);
    FileAnswers* answers = FileAnswers::current();
    if (answers == nullptr) return BlobFile{catalogue, file, fd}.read(places);
    Fingerprint print;
    for (const BlobPlace& place : places) {
        print.add(place.offset);
        print.add(place.length);
    }
    return unpacked(answers->answer(FileAnswers::Question::archives, path, print.value(), places.size(), [&] {
        const FileAnswers::Pause pause;
        // Where an earlier answer opened the file, `fd` is not that file.
        const Fd own = answers->records() ? Fd{} : open_file(path, O_RDONLY);
        return packed(BlobFile{catalogue, file, own ? own : fd}.read(places));
    }));
}

/// Whether elements follow each other without gaps; the strides of axes of one element do not count.
bool in_one_run(const torch::StoredTensor& stored) {
    const Strides dense = row_major(stored.shape);
    for (int axis = 0; axis < stored.shape.size(); ++axis) {
        if (stored.shape[axis] != 1 && stored.strides[axis] != dense[axis]) return false;
    }
    return true;
}

/// Moves `piece` from its archive to `stored`, whose offset is relative to the archive.
void locate_one(const Catalogue& catalogue, Piece& piece, const torch::StoredTensor& stored, const Inside& inside) {
    const Tensor& tensor = catalogue.tensors[piece.tensor];
    if (stored.dtype != tensor.dtype)
        throw failure("{} values where the metadata promises {}", tpx::name(stored.dtype), tpx::name(tensor.dtype));
    if (inside.elements > 0) {
        if (volume(stored.shape) != inside.elements || !in_one_run(stored))
            throw failure("shape {} where the metadata promises {} elements in a row", to_string(stored.shape),
                          inside.elements);
        piece.offset += stored.offset + static_cast<std::uint64_t>(inside.begin * itemsize(tensor.dtype));
        return;
    }
    if (stored.shape != sizes(piece.box))
        throw failure("shape {} where the metadata promises {}", to_string(stored.shape), to_string(sizes(piece.box)));
    piece.offset += stored.offset;
    piece.strides = stored.strides;
}

/// Locates the pieces of one file, `order`, which are sorted by offset.
void locate_in_file(Checkpoint& checkpoint, std::span<const std::uint32_t> order) {
    Catalogue& catalogue = checkpoint.catalogue;
    const std::uint32_t file = catalogue.pieces[order.front()].file;
    std::vector<BlobPlace> places;
    for (const std::uint32_t index : order) {
        const std::uint64_t offset = catalogue.pieces[index].offset;
        if (places.empty() || places.back().offset != offset)
            places.push_back({offset, checkpoint.archives[index], index});
    }
    const Forms forms = forms_of(catalogue, file, places);
    std::size_t archive = 0;
    for (const std::uint32_t index : order) {
        Piece& piece = catalogue.pieces[index];
        if (piece.offset != places[archive].offset) ++archive;
        const torch::StoredTensor& form = forms.forms[forms.of_archives[archive]];
        try {
            locate_one(catalogue, piece, form, checkpoint.insides.empty() ? Inside{} : checkpoint.insides[index]);
        } catch (const Error& error) {
            throw named(error, catalogue.path(file).string(), catalogue.tensors[piece.tensor].name);
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
    for (std::size_t begin = 0, end = 0; begin < order.size(); begin = end) {
        const auto file_of = [&](std::size_t k) { return catalogue.pieces[order[k]].file; };
        while (end < order.size() && file_of(end) == file_of(begin)) ++end;
        locate_in_file(checkpoint, std::span{order}.subspan(begin, end - begin));
    }
}

}  // namespace tpx::formats
