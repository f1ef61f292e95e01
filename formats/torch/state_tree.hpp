// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "formats/torch/file_writer.hpp"

namespace tpx::formats {

/// What a file of torch.save made of another format holds: the nested dicts that DCP's planner data tells; weights by
/// name, when there is nothing else; or {"model": weights by name, "optimizer": {"state": {parameter: {state: tensor}},
/// "param_groups": ...}, ...} with the source's common state beside it, all of it what torch.load(weights_only=True)
/// reads.
torch::Value make_state_tree(const Content& content, TorchFile& file);

}  // namespace tpx::formats
