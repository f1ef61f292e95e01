// SPDX-License-Identifier: Apache-2.0
#include "formats/torch/torch_file.hpp"

#include "formats/encodings/torch/archive.hpp"
#include "formats/state/common_state.hpp"
#include "formats/torch/training_roles.hpp"
#include "lib/core/error.hpp"
#include "lib/core/file.hpp"
#include "lib/core/units.hpp"

#include <algorithm>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <tuple>
#include <vector>

namespace tpx::formats {
namespace {

using Filter = Coding::Filter;

/// Adds the tensors of an archive to a catalogue. Each storage with encoded elements becomes a separate file with a
/// coding.
class Adder {
public:
    Adder(const torch::Archive& archive, Catalogue& catalogue) : archive_{archive}, catalogue_{catalogue} {}

    void add(const torch::NamedTensor& named) {
        const torch::StoredTensor& tensor = named.tensor;
        if (!names_.insert(named.name).second) throw failure("two tensors have this name");
        const auto number = static_cast<std::uint32_t>(catalogue_.tensors.size());
        catalogue_.tensors.push_back({named.name, tensor.dtype, tensor.shape});
        if (volume(tensor.shape) == 0) return;
        Piece piece{.tensor = number, .offset = tensor.offset, .box = whole(tensor.shape), .rank = 0};
        piece.strides = tensor.strides;
        check_repeated(tensor);
        const std::vector<Filter> filters = filters_of(tensor);
        if (!filters.empty()) {
            piece.file = file_of(tensor, filters);
            piece.offset = tensor.storage_offset * static_cast<std::uint64_t>(itemsize(tensor.dtype));
        }
        catalogue_.pieces.push_back(piece);
    }

private:
    /// Rejects expanded tensors, which have strides of 0, with too many repeated elements: each would be read
    /// separately.
    void check_repeated(const torch::StoredTensor& tensor) {
        constexpr double always = 1 << 30, for_each_byte = 64;
        const auto stored = static_cast<double>(archive_.find_storage(tensor.storage)->bytes);
        const double bytes = static_cast<double>(volume(tensor.shape)) * itemsize(tensor.dtype);
        repeated_ += std::max(0.0, bytes - stored);
        if (repeated_ > always + for_each_byte * static_cast<double>(catalogue_.files[0].size))
            throw failure("{} of elements repeat {} in storage (strides {}); save its unexpanded form or its clone()",
                          format_bytes(bytes), format_bytes(stored), to_string(tensor.strides));
    }

    static std::uint32_t part_of(DType dtype) {
        return static_cast<std::uint32_t>(is_complex(dtype) ? itemsize(dtype) / 2 : itemsize(dtype));
    }

    /// The filters that decode the elements of `tensor`; empty if they are stored plainly.
    std::vector<Filter> filters_of(const torch::StoredTensor& tensor) const {
        std::vector<Filter> filters;
        if (tensor.conjugated && !is_complex(tensor.dtype))
            throw failure("{} elements cannot be conjugated", name(tensor.dtype));
        if (tensor.conjugated) filters.push_back(Filter::conjugate);
        if (tensor.negated && !is_complex(tensor.dtype) && !is_real(tensor.dtype))
            throw failure("{} elements cannot be negated", name(tensor.dtype));
        if (tensor.negated) filters.push_back(Filter::negate);
        if (archive_.big_endian() && part_of(tensor.dtype) > 1) filters.push_back(Filter::swap);
        if (tensor.compressed) filters.push_back(Filter::raw_deflate);
        return filters;
    }

    /// The number of the file that represents the storage of `tensor`, decoded by `filters`.
    std::uint32_t file_of(const torch::StoredTensor& tensor, const std::vector<Filter>& filters) {
        const std::uint32_t part = part_of(tensor.dtype);
        const auto [place, added] =
            files_.try_emplace({tensor.storage, filters, part}, static_cast<std::uint32_t>(catalogue_.files.size()));
        if (!added) return place->second;
        const torch::Storage& storage = *archive_.find_storage(tensor.storage);
        Coding coding = tensor.compressed ? deflated(storage, filters)
                                          : Coding::of_items(filters, part, storage.offset, storage.bytes);
        coding.item = part;
        coding.owner = fmt::format("storage '{}'", tensor.storage);
        catalogue_.files.push_back(
            {catalogue_.files[0].path, coding.size, std::make_shared<const Coding>(std::move(coding))});
        return place->second;
    }

    static Coding deflated(const torch::Storage& storage, const std::vector<Filter>& filters) {
        if (storage.bytes / Coding::max_inflation > storage.stored_bytes)
            throw failure("{} bytes cannot inflate to {}", storage.stored_bytes, storage.bytes);
        return {.filters = filters,
                .chunk_size = storage.bytes,
                .size = storage.bytes,
                .chunks = {{storage.offset, storage.stored_bytes, 0}}};
    }

    const torch::Archive& archive_;
    Catalogue& catalogue_;
    std::set<std::string> names_;
    double repeated_ = 0;  ///< bytes of elements that repeat others of their tensor in storage
    std::map<std::tuple<std::string, std::vector<Filter>, std::uint32_t>, std::uint32_t> files_;
};

/// Reads the iteration, and Megatron's args in files converted from Megatron. Ignores args of other scripts.
void read_common(torch::Value root, Checkpoint& checkpoint) {
    if (!root.is(torch::Kind::dict)) return;
    checkpoint.iteration = iteration_in(root);
    Config args = args_of(root);
    if (args.contains("num_layers") && args.contains("hidden_size") && args.contains("num_attention_heads"))
        checkpoint.config = std::move(args);
}

}  // namespace

std::string subclass_note(const torch::Archive& archive) {
    std::size_t count = 0;
    std::string note;
    for (const torch::NamedValue& named : archive.tensor_values()) {
        const std::string own = torch::subclass_of(named.value);
        if (!own.empty() && count++ == 0) note = fmt::format("tensor '{}' is a {}", named.name, own);
    }
    if (count > 1) note += fmt::format(", and {} more are subclasses", count - 1);
    if (count > 0) note += ": torch.save files keep tensor subclasses, other formats only the elements";
    return note;
}

Checkpoint open_torch_file(Format format, const std::filesystem::path& file) {
    Checkpoint checkpoint{.format = format};
    checkpoint.catalogue.directory = file.parent_path();
    checkpoint.catalogue.files.push_back({file.filename(), size_of_file(file)});
    const torch::Archive archive = torch::Archive::open(file);
    const TrainingTensors training = training_tensors(archive);
    in_context([&] { return file.string(); },
               [&] {
                   Adder adder{archive, checkpoint.catalogue};
                   for (const torch::NamedTensor& named : training.tensors)
                       in_context([&] { return fmt::format("tensor '{}'", named.name); }, [&] { adder.add(named); });
                   read_common(archive.root(), checkpoint);
                   if (auto roles = read_training(archive, training)) {
                       checkpoint.roles = std::move(roles->roles);
                       checkpoint.parameters = std::move(roles->parameters);
                       checkpoint.notes = std::move(roles->notes);
                   }
               });
    if (std::string note = subclass_note(archive); !note.empty()) checkpoint.notes.push_back(std::move(note));
    return checkpoint;
}

}  // namespace tpx::formats
