// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "formats/checkpoint.hpp"

#include <map>
#include <set>
#include <string>
#include <vector>

namespace tpx::formats {

/// A value that a checkpoint stores beside its tensors and that belongs to its training state.
struct TrainingValue {
    std::string role;   ///< one of value_roles, as tpx-verify(1) describes them
    std::string path;   ///< the same in every format that can hold it: "args.lr", "opt_param_scheduler.num_steps"
    std::string place;  ///< of the rank whose value it is: "pp 0 tp 1 ep 0"; empty: of the whole job
    std::string text;   ///< numbers and words as Python prints them; long ones and arrays with a digest
};

/// What an optimizer is told for a group of its parameters.
struct SettingGroup {
    std::string optimizer;  ///< where the optimizer is stored: "optimizer", "opt_g"
    std::string group;      ///< a number, or the parameter's name where each parameter is a group
    /// By key, texts as of values; several where files of ranks have groups of one name.
    std::map<std::string, std::set<std::string>, std::less<>> settings;
};

/// The values beside the tensors of one checkpoint, in one form for all formats and layouts.
struct TrainingValues {
    std::vector<TrainingValue> values;  ///< by role, path and place, each of them once
    std::vector<SettingGroup> groups;   ///< by optimizer, in the order of their numbers
    std::vector<std::string> unread;    ///< a line each: what could not be read, and why
    std::string unplaced;               ///< how many states of random numbers are of no known rank; empty: none
};

/// Reads the values beside the tensors of `checkpoint`: Megatron's args, a model's config.json, iteration, schedulers,
/// counters, the states of random number generators, settings of the optimizer that are not compared parameter by
/// parameter. What describes the layout or the framework that wrote it is left out. Throws Error "FILE: ..." when a
/// file is damaged.
TrainingValues training_values(const Checkpoint& checkpoint);

}  // namespace tpx::formats
