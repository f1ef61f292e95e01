// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "formats/encodings/hdf5/handles.hpp"
#include "formats/encodings/hdf5/survey.hpp"

namespace tpx::formats::hdf5 {

/// Appends the attributes of an object, sorted by name. Returns false if libhdf5 cannot read them.
bool read_attributes(hid_t object, Attributes& attributes);

/// Sets all of `facts` except path and attributes from the open dataset, and adds `base` to all offsets. Throws Error
/// if libhdf5 cannot read the dataset; if tpx does not support it, sets `refusal`.
void describe_dataset(hid_t dataset, std::uint64_t base, DatasetFacts& facts);

}  // namespace tpx::formats::hdf5
