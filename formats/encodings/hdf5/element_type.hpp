// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "formats/encodings/hdf5/handles.hpp"
#include "formats/encodings/hdf5/survey.hpp"

namespace tpx::formats::hdf5 {

/// Sets the fields of `facts` that follow from a dataset's type: dtype, item, part, swapped and vague; kind if the
/// dataset is not a tensor; refusal if it cannot be read. Appends the dimensions of an array type to `shape`.
void describe_type(hid_t type, DatasetFacts& facts);

}  // namespace tpx::formats::hdf5
