// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "formats/checkpoint.hpp"
#include "formats/encodings/torch/archive_writer.hpp"
#include "formats/encodings/torch/value.hpp"

#include <string>
#include <utility>
#include <vector>

namespace tpx::formats {

/// Non-tensor state of a source for a file of another format: only dicts, lists, text, numbers, and small tensors,
/// whose storages are in the `contents` passed to carried_state().
struct CarriedState {
    std::vector<torch::Entry> common;                           ///< args, iteration, schedulers, counters, user entries
    std::vector<torch::Entry> optimizer;                        ///< param_groups, loss scales
    std::vector<std::pair<std::string, torch::Value>> objects;  ///< objects of DCP, by name
};

/// The non-tensor state of `content.source`. Omits RNG states and other objects of single ranks, because there are no
/// ranks in one file.
CarriedState carried_state(const Content& content, torch::Document& document, torch::Contents& contents);

/// The keys of the common state that carried_state() finds, or that a torch.save file has in addition to its tensors.
std::vector<std::string> state_keys(const Checkpoint& source);

}  // namespace tpx::formats
