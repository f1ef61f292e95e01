// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "formats/source.hpp"
#include "lib/layout/parts.hpp"

#include <cstddef>
#include <cstdint>
#include <functional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace tpx::formats {

/// Separator in the canonical name of a duplicate: ORIGINAL as STORED.
inline constexpr const char* copy_separator = " as ";

/// The name of the canonical tensor that `name`, which contains copy_separator, is a copy of.
inline std::string_view original_name(std::string_view name) { return name.substr(0, name.find(copy_separator)); }

/// The canonical tensors of a checkpoint and their pieces, which verify compares. Refers to its source. A million
/// tensors should take little more memory than their names, shapes and pieces.
struct CanonicalTensors {
    const Source* source = nullptr;
    std::vector<Tensor> tensors;
    std::vector<Piece> pieces;          ///< by stored tensor
    std::vector<std::uint32_t> stored;  ///< the number of the stored tensor that contains each
    std::vector<std::uint32_t> within;  ///< which of its parts each is
    std::vector<Role> roles;

    Side side() const { return {tensors, pieces}; }
    /// The name of the stored tensor that contains tensor `t`.
    const std::string& stored_name(std::size_t t) const;
};

/// Locates the payloads of `source` and returns its canonical tensors. Throws Error "tensor 'NAME': ..." if two stored
/// tensors contain the same canonical one.
CanonicalTensors canonical(Source& source);

/// Calls `visit` for every canonical tensor of `source` with the number of its pieces. Does not mark the names of
/// duplicates with copy_separator. Takes little memory.
void for_each_canonical(const Source& source, const std::function<void(const Part& part, std::size_t pieces)>& visit);

/// Finds where canonical tensors are in stored ones, for messages. Caches the parts of the last stored tensor.
class PartFinder {
public:
    /// The coordinates in the stored tensor of element `x` of tensor `t`.
    Tuple<Index> stored_index(const CanonicalTensors& canonical, std::size_t t, const Tuple<Index>& x);

private:
    std::pair<const Source*, std::uint32_t> last_;
    std::vector<Part> parts_;
};

/// Whether a stored tensor is a duplicate of another one, as some files contain.
bool is_copy(const Meaning& meaning);

/// The numbers of all stored tensors, duplicates last.
std::vector<std::size_t> copies_last(const Reading& reading);

}  // namespace tpx::formats
