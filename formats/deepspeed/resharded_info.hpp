// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "formats/encodings/torch/value.hpp"

namespace tpx::formats::deepspeed {

/// `info`, a universal_checkpoint_info, for the slices of `ranks` tensor ranks, another number than before: without the
/// affine_map of the old ranks and the vocabulary beside it, which AutoTP does not pad, and with sub_param_shard_widths
/// of one rank, the only number that uneven slices are cut for. Values are created in `document`.
torch::Value info_for_ranks(torch::Document& document, torch::Value info, int ranks);

}  // namespace tpx::formats::deepspeed
