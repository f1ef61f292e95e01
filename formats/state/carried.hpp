// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "formats/checkpoint.hpp"
#include "formats/encodings/torch/archive_writer.hpp"
#include "formats/encodings/torch/value.hpp"

#include <string>
#include <utility>
#include <vector>

namespace tpx::formats {

/// Non-tensor state of a source for a file of another kind: dicts, lists, text, numbers and small tensors only, whose
/// storages are in the contents that were given.
struct CarriedState {
    std::vector<torch::Entry> common;     ///< args, iteration, schedulers, counters, what users added
    std::vector<torch::Entry> optimizer;  ///< param_groups, loss scales
    std::vector<std::pair<std::string, torch::Value>> objects;  ///< byte entries of DCP, by name
};

/// What `content.source` has. States of random number generators and other objects of single ranks are not in it:
/// there are no ranks in one file.
CarriedState carried_state(const Content& content, torch::Document& document, torch::Contents& contents);

/// The keys of state that carried_state() finds, or that a torch.save file has beside its tensors.
std::vector<std::string> state_keys(const Checkpoint& source);

}  // namespace tpx::formats
