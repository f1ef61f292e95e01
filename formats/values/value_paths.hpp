// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <optional>
#include <string>
#include <string_view>

namespace tpx::formats {

/// The roles of values beside the tensors: settings of the optimizer, its step, ...; "extra" is all that no other role
/// names.
inline constexpr std::array<std::string_view, 9> value_roles{"settings", "step",     "scheduler", "rng",  "rerun",
                                                             "args",     "counters", "data",      "extra"};

/// What a value beside the tensors is.
struct ValuePath {
    std::string_view role;  ///< one of value_roles
    std::string path;       ///< the same in every format
    bool several = false;   ///< each group of parameters, or each optimizer, may have its own
};

/// Whether what a checkpoint keeps at `path` is no training state: tensors and their bookkeeping, which are compared as
/// tensors; what describes the layout and the framework that wrote the checkpoint.
bool is_bookkeeping(std::string_view path);

/// Whether a checkpoint without the value at `path`, as classify() gives it, says the same as one with `text` there:
/// None, an empty dict or list, and what frameworks assume of a setting that is absent.
bool is_default(std::string_view path, std::string_view text);

/// What the value at `path`, keys and indices joined with '.', is.
ValuePath classify(std::string_view path);

/// An entry of a group of an optimizer's parameters: OPTIMIZER.param_groups.GROUP.KEY.
struct GroupPath {
    std::string_view optimizer;
    std::string_view group;  ///< a number, or the parameter's name where each parameter is a group
    std::string_view key;
};

/// What `path` names, if it is an entry of a group; entries that say how an optimizer computes do not count.
std::optional<GroupPath> group_path(std::string_view path);

/// Whether `key` is a setting of a group that is compared parameter by parameter where the parameters are known.
bool is_of_parameters(std::string_view key);

/// Whether `key` of a group says which of the model's parameters the group has.
bool identifies_group(std::string_view key);

}  // namespace tpx::formats
