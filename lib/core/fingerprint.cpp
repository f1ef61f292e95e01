// SPDX-License-Identifier: Apache-2.0
#include "lib/core/fingerprint.hpp"

namespace tpx {

std::uint64_t catalogue_digest(const Catalogue& catalogue) {
    Fingerprint print;
    print.add(catalogue.files.size());
    for (const FileEntry& file : catalogue.files) {
        print.add(file.path.generic_string());
        print.add(file.size);
    }
    print.add(catalogue.tensors.size());
    for (const Tensor& tensor : catalogue.tensors) {
        print.add(tensor.name);
        print.add(name(tensor.dtype));
        print.add(static_cast<std::uint64_t>(tensor.shape.size()));
        for (Index size : tensor.shape) print.add(static_cast<std::uint64_t>(size));
    }
    print.add(catalogue.pieces.size());
    for (const Piece& piece : catalogue.pieces) {
        print.add(std::uint64_t{piece.tensor});
        print.add(std::uint64_t{piece.file});
        print.add(piece.box);
    }
    return print.value();
}

}  // namespace tpx
