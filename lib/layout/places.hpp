// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "lib/layout/model_state.hpp"
#include "lib/layout/occurrences.hpp"

#include <functional>
#include <map>
#include <set>
#include <string>

namespace tpx {

/// The layers and experts that have each canonical tensor, by name.
using Places = std::map<std::string, std::set<Place>, std::less<>>;

/// Those of the tensors of `model`, in layers below `layers`.
Places places_of(const ModelState& model, int layers);

Places places_of(const Occurrences& occurrences);

/// Whether any of `places` is in `layer`.
bool has_layer(const std::set<Place>& places, Index layer);

}  // namespace tpx
