// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "formats/encodings/hdf5/handles.hpp"
#include "formats/encodings/hdf5/survey.hpp"

namespace tpx::formats::hdf5 {

/// Sets what the type of a dataset tells: dtype, item, part, swapped, vague, or else kind, or refusal; and appends the
/// dimensions of an array type to `shape`.
void describe_type(hid_t type, DatasetFacts& facts);

}  // namespace tpx::formats::hdf5
