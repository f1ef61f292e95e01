// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "lib/core/catalogue.hpp"
#include "lib/layout/reading.hpp"

#include <compare>
#include <map>
#include <set>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace tpx {

/// Layer and expert of a piece of a canonical tensor; -1: it has none.
struct Place {
    int layer = -1;
    int expert = -1;

    friend auto operator<=>(const Place&, const Place&) = default;
};

/// Where a canonical tensor occurs, and the dtype it is stored in.
struct Occurrence {
    std::set<Place> places;
    DType dtype = DType::f32;
    std::string stored;           ///< a stored name, for messages
    std::map<Place, Dims> sizes;  ///< of the factors, if the size of one varies
};

using Occurrences = std::map<std::string, Occurrence, std::less<>>;

/// Where the parameters of `source` occur in `role` (weights, or one kind of optimizer state), by canonical name.
Occurrences occurrences_of(const Reading& source, std::span<const Tensor> tensors, Role role);

/// Throws Error if a layer lacks a tensor that all layers must have, or an expert one that other experts of its layer
/// have.
void require_layers(const Reading& source, const Occurrences& have);

}  // namespace tpx
