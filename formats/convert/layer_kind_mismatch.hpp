// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "lib/layout/occurrences.hpp"
#include "lib/layout/places.hpp"
#include "lib/layout/reading.hpp"

#include <string>

namespace tpx::formats {

/// A line about layers of another kind than config.json describes, with the settings that determine the kind. These
/// layers store an optional tensor that `model` lacks there, and lack one that `model` has there. "" if there are none.
std::string layer_kind_mismatch(const Reading& reading, const Occurrences& stored, const Places& model);

}  // namespace tpx::formats
