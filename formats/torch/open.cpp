// SPDX-License-Identifier: Apache-2.0
#include "formats/torch/open.hpp"

#include "formats/torch/archive.hpp"
#include "lib/core/error.hpp"
#include "lib/core/file.hpp"

#include <set>

namespace tpx::formats {
namespace {

void check_plain(const torch::NamedTensor& named) {
    const torch::StoredTensor& tensor = named.tensor;
    const char* twist = tensor.compressed   ? "compressed"
                        : tensor.conjugated ? "conjugated"
                        : tensor.negated    ? "negated"
                                            : nullptr;
    if (twist) throw failure("tensor '{}': its elements are {}, which cannot be moved as they are", named.name, twist);
}

void add_tensors(Checkpoint& checkpoint, const torch::Archive& archive) {
    Catalogue& catalogue = checkpoint.catalogue;
    std::set<std::string> names;
    for (const torch::NamedTensor& named : archive.tensors()) {
        check_plain(named);
        if (!names.insert(named.name).second) throw failure("tensor '{}': two tensors have this name", named.name);
        const auto number = static_cast<std::uint32_t>(catalogue.tensors.size());
        catalogue.tensors.push_back({named.name, named.tensor.dtype, named.tensor.shape});
        if (volume(named.tensor.shape) == 0) continue;
        catalogue.pieces.push_back({.tensor = number,
                                    .file = 0,
                                    .offset = named.tensor.offset,
                                    .box = whole(named.tensor.shape),
                                    .strides = named.tensor.strides,
                                    .rank = 0});
    }
}

}  // namespace

Checkpoint open_torch_file(const std::filesystem::path& file) {
    Checkpoint checkpoint{.format = Format::torch};
    checkpoint.catalogue.directory = file.parent_path();
    checkpoint.catalogue.files.push_back({file.filename(), size_of_file(file)});
    const torch::Archive archive = torch::Archive::open(file);
    in_context([&] { return file.string(); },
               [&] {
                   if (archive.big_endian())
                       throw failure("its elements are big-endian, which cannot be moved as they are");
                   add_tensors(checkpoint, archive);
               });
    return checkpoint;
}

}  // namespace tpx::formats
