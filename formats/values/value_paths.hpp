// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <optional>
#include <string>
#include <string_view>

namespace tpx::formats {

/// The roles of non-tensor values: optimizer settings, its step, ...; "extra" is everything without another role.
inline constexpr std::array<std::string_view, 9> value_roles{"settings", "step",     "scheduler", "rng",  "rerun",
                                                             "args",     "counters", "data",      "extra"};

/// The role and path of a non-tensor value.
struct ValuePath {
    std::string_view role;  ///< one of value_roles
    std::string path;       ///< the same in every format
    bool several = false;   ///< each parameter group or optimizer may have a different value
};

/// Whether the value at `path` is not training state: tensors and their bookkeeping, which are compared as tensors, or
/// descriptions of the layout or the framework that wrote the checkpoint.
bool is_bookkeeping(std::string_view path);

/// Whether `text` is equivalent to a missing value at `path`, as returned by classify(): None, an empty dict or list,
/// or the frameworks' default for the setting.
bool is_default(std::string_view path, std::string_view text);

/// The role and path of the value at `path`, which has keys and indices joined with '.'.
ValuePath classify(std::string_view path);

/// An entry of a parameter group: OPTIMIZER.param_groups.GROUP.KEY.
struct GroupPath {
    std::string_view optimizer;
    std::string_view group;  ///< a number, or the parameter's name if each parameter is a group
    std::string_view key;
};

/// The parts of `path`, if it is an entry of a parameter group, except settings of how an optimizer computes.
std::optional<GroupPath> group_path(std::string_view path);

/// Whether `key` is a group setting that is compared parameter by parameter if the parameters are known.
bool is_parameter_setting(std::string_view key);

/// Whether `key` of a group determines which of the model's parameters belong to it.
bool identifies_group(std::string_view key);

}  // namespace tpx::formats
