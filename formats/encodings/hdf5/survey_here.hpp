// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "formats/encodings/hdf5/handles.hpp"
#include "formats/encodings/hdf5/survey.hpp"

namespace tpx::formats::hdf5 {

/// Appends the attributes of an object, in the order of their names. Returns false when libhdf5 cannot read them.
bool read_attributes(hid_t object, Attributes& attributes);

/// Sets shape, storage, filters, chunks and the rest of `facts`, whose path is known, from the open dataset. Throws
/// Error when libhdf5 cannot read what it should; what tpx refuses becomes `refusal`. Offsets have `base` added.
void describe_dataset(hid_t dataset, std::uint64_t base, DatasetFacts& facts);

}  // namespace tpx::formats::hdf5
