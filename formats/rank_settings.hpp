// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "formats/torch/value.hpp"

#include <filesystem>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <utility>

namespace tpx::formats {

/// Checks that files which ranks wrote together record the same: files of two iterations or runs, mixed by a save that
/// died half-way, are no checkpoint.
class RankSettings {
public:
    /// Compares numbers, flags and texts of `value`, a scalar or a dict or list of them at any depth, with what another
    /// file recorded under the same name, if one did; anything else in it is passed over. Throws Error "FILE: 'NAME' is
    /// X, but Y in OTHER FILE; ...".
    void add(const std::filesystem::path& file, const std::string& name, torch::Value value);
    void add(const std::filesystem::path& file, const std::string& name, std::optional<torch::Value> value) {
        if (value) add(file, name, *value);
    }

    /// The same for the groups of an optimizer, a list of dicts: groups of different ranks are compared where they have
    /// the same multipliers, for a rank may lack a group.
    void add_groups(const std::filesystem::path& file, const std::string& name, torch::Value groups);

private:
    struct Known {
        std::string value;
        std::filesystem::path file;
    };
    void add_scalar(const std::filesystem::path& file, const std::string& name, std::string value);

    std::map<std::string, Known> known_;
};

}  // namespace tpx::formats
