// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "formats/source.hpp"

#include <string>

namespace tpx::formats {

/// Replaces the reading of `source` by one of the weights that its codes and scales store. Sets Meaning::weight_part of
/// each code and scale tensor, so that layouts split it like its weight. Does nothing where no family explains the
/// weights or parts do not fit each other.
void read_weight_parts(Source& source);

/// Why codes and scales cannot be split over the ranks of `target` as they are: blocks that a part of the weight would
/// share with another one, or a scheme whose codes are not split. Empty if they can.
std::string why_codes_stay_whole(const Source& source, const Target& target);

}  // namespace tpx::formats
