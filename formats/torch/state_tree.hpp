// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "formats/torch/torch_file_writer.hpp"

namespace tpx::formats {

/// The root object of a torch.save file converted from another format: the nested dicts in DCP's planner data; only
/// weights by name, if there is nothing else; or {"model": weights by name, "optimizer": {"state": {parameter: {state:
/// tensor}}, "param_groups": ...}, ...} with the source's common state. torch.load(weights_only=True) can read all of
/// it.
torch::Value make_state_tree(const Content& content, TorchFileWriter& file);

}  // namespace tpx::formats
