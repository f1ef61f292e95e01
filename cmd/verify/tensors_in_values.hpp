// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "cmd/verify/compare.hpp"
#include "cmd/verify/compared_checkpoint.hpp"

namespace tpx::cli {

/// Removes the differences about tensors that one side stores as tensors and the other inside a value, as DCP stores
/// those in tuples, if dtype, shape and digest are equal. Counts them as compared.
void match_tensors_in_values(const ComparedCheckpoint& a, const ComparedCheckpoint& b, Comparison& result);

}  // namespace tpx::cli
