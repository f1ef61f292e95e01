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
inline constexpr const char* copy_mark = " as ";

/// Of which canonical tensor the one called `name`, with copy_mark, is a copy.
inline std::string_view original_name(std::string_view name) { return name.substr(0, name.find(copy_mark)); }

/// The canonical tensors of a checkpoint and the pieces that hold them, which verify compares. Refers to the source, of
/// which it is made; a million tensors should take little more memory than their names, shapes and pieces.
struct Canonical {
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

/// The canonical tensors of `source`, whose payloads are located by this call. Throws Error "tensor 'NAME': ..." when
/// two tensors are the same canonical one.
Canonical canonical(Source& source);

/// Calls `visit` for every canonical tensor of `source`, of which no names are made unique, with the number of its
/// pieces. Takes little memory.
void for_each_canonical(const Source& source, const std::function<void(const Part& part, std::size_t pieces)>& visit);

/// Finds where canonical tensors are in stored ones, for messages. Keeps the parts of the last stored tensor.
class PartFinder {
public:
    /// The coordinates in the stored tensor of element `x` of tensor `t`.
    Tuple<Index> stored_index(const Canonical& canonical, std::size_t t, const Tuple<Index>& x);

private:
    std::pair<const Source*, std::uint32_t> last_;
    std::vector<Part> parts_;
};

/// Whether a stored tensor is a duplicate that some files have of another one.
bool is_copy(const Meaning& meaning);

/// The numbers of all stored tensors, those of duplicates behind all others.
std::vector<std::size_t> copies_last(const Reading& reading);

}  // namespace tpx::formats
