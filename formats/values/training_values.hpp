// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "formats/checkpoint.hpp"

#include <map>
#include <set>
#include <string>
#include <vector>

namespace tpx::formats {

/// A non-tensor value of a checkpoint's training state.
struct TrainingValue {
    std::string role;   ///< one of value_roles, which tpx-verify(1) describes
    std::string path;   ///< the same in every format that can store it: "args.lr", "opt_param_scheduler.num_steps"
    std::string place;  ///< the rank to which the value belongs: "pp 0 tp 1 ep 0"; empty: the whole job
    std::string text;   ///< numbers and words as Python prints them; long ones and arrays with a digest
};

/// The settings of a parameter group of an optimizer.
struct SettingGroup {
    std::string optimizer;  ///< where the optimizer is stored: "optimizer", "opt_g"
    std::string group;      ///< a number, or the parameter's name if each parameter is a group
    /// Texts by key; several if rank files have groups with the same name.
    std::map<std::string, std::set<std::string>, std::less<>> settings;
};

/// The non-tensor values of a checkpoint, in the same form for all formats and layouts.
struct TrainingValues {
    std::vector<TrainingValue> values;  ///< sorted by role, path and place, without duplicates
    std::vector<SettingGroup> groups;   ///< sorted by optimizer and number
    std::vector<std::string> unread;    ///< a line each: values that could not be read, and why
    std::string unplaced;               ///< how many RNG states belong to an unknown rank; empty: none
};

/// Reads the non-tensor values of `checkpoint`: Megatron's args, the model's config.json, iteration, schedulers,
/// counters, RNG states, and optimizer settings that are not compared parameter by parameter. Omits values that
/// describe the layout or the framework that wrote the checkpoint. Throws Error "FILE: ..." if a file is damaged.
TrainingValues training_values(const Checkpoint& checkpoint);

}  // namespace tpx::formats
