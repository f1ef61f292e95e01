// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "formats/encodings/torch/value.hpp"

#include <filesystem>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <utility>

namespace tpx::formats {

/// Checks that files that ranks wrote together record the same settings: a mixture of files of two iterations or runs,
/// such as an interrupted save leaves behind, is not a checkpoint.
class RankSettings {
public:
    /// Compares numbers, flags and texts of `value`, a scalar or a dict or list of them at any depth, with those that
    /// other files record under the same name; of other objects in it, such as tensors, compares only whether they
    /// exist. A value of None equals a missing one. Throws Error "FILE: 'NAME' is X, but Y in OTHER FILE; ...", in
    /// which X or Y may be "missing".
    void add(const std::filesystem::path& file, const std::string& name, torch::Value value);

    /// The same for an optional value: all files that are added must have a value of this name, or none of them.
    void add(const std::filesystem::path& file, const std::string& name, std::optional<torch::Value> value);

    /// Compares only which keys `dict` has, except for keys for which `skip` returns true.
    void add_keys(const std::filesystem::path& file, const std::string& name, torch::Value dict,
                  const std::function<bool(std::string_view key)>& skip = {});

    /// Like add() for the groups of an optimizer, a list of dicts: groups of different ranks are compared if they have
    /// the same multipliers, because a rank may lack a group.
    void add_groups(const std::filesystem::path& file, const std::string& name, torch::Value groups);

private:
    /// What one file records under a name: texts of scalars by their full names, empty for other objects.
    using Values = std::map<std::string, std::string>;
    struct Known {
        Values values;
        std::filesystem::path file;
    };
    void compare(const std::filesystem::path& file, const std::string& name, Values values);

    std::map<std::string, Known> known_;  // by name, what the first file records
};

}  // namespace tpx::formats
