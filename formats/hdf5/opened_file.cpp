// SPDX-License-Identifier: Apache-2.0
#include "formats/hdf5/opened_file.hpp"

#include "formats/encodings/hdf5/pieces.hpp"
#include "formats/encodings/hdf5/tree.hpp"
#include "formats/encodings/torch/zip.hpp"
#include "lib/core/coverage.hpp"
#include "lib/core/error.hpp"
#include "lib/core/units.hpp"

#include <fcntl.h>

#include <algorithm>
#include <tuple>
#include <unordered_map>

namespace tpx::formats::hdf5 {
namespace {

constexpr const char* archived_weights = "model.weights.h5";
// Larger archives are not inflated for inspection.
constexpr std::uint64_t longest_inflated = std::uint64_t{1} << 32;

Box box_of(const NamedDataset& dataset, const Shape& own) {
    Box box;
    for (int k = 0; k < own.size(); ++k) {
        const Index begin = dataset.shape ? dataset.first[k] : 0;
        Index end = 0;
        if (begin < 0 || __builtin_add_overflow(begin, own[k], &end)) throw failure("begins at {}", begin);
        box.push_back({begin, end});
    }
    return box;
}

class Joiner {
public:
    explicit Joiner(Checkpoint& checkpoint) : checkpoint_{checkpoint}, catalogue_{checkpoint.catalogue} {}

    void add(const NamedDataset& dataset) {
        const DType dtype = dtype_of(*dataset.facts);
        const Shape own = shape_of(*dataset.facts);
        const Shape shape = dataset.shape.value_or(own);
        if (shape.size() != own.size() || checked_volume(shape) < 0)
            throw failure("is {}, a part of {}", to_string(own), to_string(shape));
        const auto next = static_cast<std::uint32_t>(catalogue_.tensors.size());
        const auto [found, fresh] = numbers_.emplace(dataset.name, next);
        if (fresh) {
            catalogue_.tensors.push_back({dataset.name, dtype, shape});
            checkpoint_.roles.push_back(dataset.role);
        }
        const Tensor& tensor = catalogue_.tensors[found->second];
        if (!fresh && (!dataset.shape || tensor.dtype != dtype || tensor.shape != shape))
            throw failure("a second tensor is called '{}', {} {} after {} {}", dataset.name, name(dtype),
                          to_string(shape), name(tensor.dtype), to_string(tensor.shape));
        add_pieces(*dataset.facts, found->second, box_of(dataset, own), dataset.rank, dataset.file, catalogue_);
    }

private:
    Checkpoint& checkpoint_;
    Catalogue& catalogue_;
    std::unordered_map<std::string, std::uint32_t> numbers_;
};

bool is_fill(const FileEntry& file) {
    return file.coding && file.coding->chunks.size() == 1 && file.coding->chunks[0].length == 0;
}

/// Rejects unwritten data much larger than the stored data: a 2 kB file can declare 2^60 elements, which would take
/// years to read.
void check_unwritten(const Catalogue& catalogue) {
    constexpr std::uint64_t always = std::uint64_t{1} << 30, for_each_byte = 64;
    std::uint64_t stored = 0;
    for (const FileEntry& file : catalogue.files) stored += is_fill(file) ? 0 : file.size;
    double unwritten = 0;
    for (const Piece& piece : catalogue.pieces) {
        if (!is_fill(catalogue.files[piece.file])) continue;
        const Tensor& tensor = catalogue.tensors[piece.tensor];
        unwritten += static_cast<double>(volume(piece.box)) * itemsize(tensor.dtype);
        if (unwritten > static_cast<double>(always) + for_each_byte * static_cast<double>(stored))
            throw failure(
                "{}: tensor '{}': {} were never written, in a checkpoint of {}; create the dataset with all of its "
                "data",
                catalogue.path(piece.file).string(), tensor.name, format_bytes(unwritten),
                format_bytes(static_cast<double>(stored)));
    }
}

}  // namespace

OpenedFile open_file(Catalogue& catalogue, const std::filesystem::path& name) {
    const std::filesystem::path path = catalogue.directory / name;
    const std::uint64_t size = size_of_file(path);
    const auto number = static_cast<std::uint32_t>(catalogue.files.size());
    catalogue.files.push_back({name, size});
    const Fd fd = tpx::open_file(path, O_RDONLY);
    return {number, survey({&fd, path, 0, size, {}})};
}

OpenedFile open_archive(Catalogue& catalogue, const std::filesystem::path& name) {
    const std::filesystem::path path = catalogue.directory / name;
    const std::uint64_t size = size_of_file(path);
    const Fd fd = tpx::open_file(path, O_RDONLY);
    const auto number = static_cast<std::uint32_t>(catalogue.files.size());
    torch::ZipEntry entry;
    std::uint64_t start = 0;
    std::string inflated;
    in_context([&] { return path.string(); },
               [&] {
                   const torch::Zip zip{{&fd, path, 0, size}, torch::Zip::Root::none};
                   const torch::ZipEntry* found = zip.find(archived_weights);
                   if (found == nullptr) throw failure("has no {}", archived_weights);
                   entry = *found;
                   start = zip.payload(entry);
                   if (entry.deflated) inflated = zip.read(entry, longest_inflated);
               });
    if (!entry.deflated) {
        catalogue.files.push_back({name, size});
        return {number, survey({&fd, path, start, entry.size, {}})};
    }
    Coding coding{.filters = {Coding::Filter::raw_deflate},
                  .chunk_size = entry.size,
                  .size = entry.size,
                  .chunks = {{start, entry.stored_size, 0}}};
    catalogue.files.push_back({name, entry.size, std::make_shared<const Coding>(std::move(coding))});
    return {number, survey({nullptr, path, 0, inflated.size(), inflated})};
}

std::string archive_text(const std::filesystem::path& archive, const char* name) {
    constexpr std::uint64_t longest = 16 << 20;
    const std::uint64_t size = size_of_file(archive);
    const Fd fd = tpx::open_file(archive, O_RDONLY);
    return in_context([&] { return archive.string(); },
                      [&] {
                          const torch::Zip zip{{&fd, archive, 0, size}, torch::Zip::Root::none};
                          const torch::ZipEntry* found = zip.find(name);
                          return found == nullptr ? std::string{} : zip.read(*found, longest);
                      });
}

void add_tensors(std::span<const NamedDataset> datasets, Checkpoint& checkpoint) {
    Catalogue& catalogue = checkpoint.catalogue;
    Joiner joiner{checkpoint};
    for (const NamedDataset& dataset : datasets) {
        in_context(
            [&] { return fmt::format("{}: dataset '{}'", catalogue.path(dataset.file).string(), dataset.facts->path); },
            [&] { joiner.add(dataset); });
    }
    const auto is_weight = [](Role role) { return role == Role::weight; };
    if (std::ranges::all_of(checkpoint.roles, is_weight)) checkpoint.roles.clear();
    std::ranges::stable_sort(catalogue.pieces, {}, [](const Piece& p) { return std::tie(p.tensor, p.box, p.file); });
    check_unwritten(catalogue);
    in_context([&] { return catalogue.directory.string(); }, [&] { find_holes(catalogue); });
}

std::string dotted(std::string_view path) {
    std::string name{path};
    std::ranges::replace(name, '/', '.');
    return name;
}

}  // namespace tpx::formats::hdf5
