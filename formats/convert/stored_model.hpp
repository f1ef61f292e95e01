// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "formats/checkpoint.hpp"
#include "formats/files/model_file.hpp"
#include "lib/change/parcel.hpp"
#include "lib/layout/layout.hpp"

#include <string>

namespace tpx::formats {

/// What changes between two layouts of a model.
struct StoredModelChange {
    Parcels parcels;
    std::string note;  ///< a warning if the split of optimizer state is an approximation; else empty
};

/// What changes between two layouts of `description`'s model if its ranks hold what those of a checkpoint in `format`
/// do. Megatron's formats: with zero=1, optimizer state is in the flat buffers of Megatron's distributed
/// optimizer, see buffer_shares(). Padding of the vocabulary counts as far as both layouts store it. "deepspeed":
/// partitions of a model with Hugging Face names, see partition_shares(). Takes time with the parameters of every rank
/// that differs from others. Throws Error (usage) for layouts that the framework does not have, and for models that it
/// has no names for.
StoredModelChange stored_model_change(const ModelDescription& description, Format format, const Layout& from,
                                      const Layout& to);

}  // namespace tpx::formats
