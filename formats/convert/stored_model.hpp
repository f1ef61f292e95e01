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

/// What changes between two layouts of the model in `description` if ranks hold the same state as for a checkpoint in
/// `format`. Megatron's formats: with zero=1, optimizer state is in the flat buffers of Megatron's distributed
/// optimizer, see buffer_shares(); only vocabulary padding that both layouts store counts. "deepspeed": partitions of a
/// model with Hugging Face names, see partition_shares(). Time grows with the parameters of all ranks that differ from
/// each other. Throws Error (usage) for layouts that the framework does not support and for models without names in it.
StoredModelChange stored_model_change(const ModelDescription& description, Format format, const Layout& from,
                                      const Layout& to);

}  // namespace tpx::formats
