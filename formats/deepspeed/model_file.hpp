// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "formats/encodings/torch/archive.hpp"
#include "lib/core/box.hpp"

#include <filesystem>
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

namespace tpx::formats::deepspeed {

/// Parameters of one optimizer group (ZeRO 3: sub-group) with the shapes of one rank's slices, in the order in which
/// they are flattened.
using ParameterGroup = std::vector<std::pair<std::string, Shape>>;

/// The entry of a model file in which tpx records the format from which it made a universal checkpoint.
constexpr const char* made_from_key = "tpx_made_from";

/// The non-tensor contents of a *_model_states.pt file.
struct ModelFile {
    std::filesystem::path path;
    torch::Archive archive;
    std::vector<ParameterGroup> groups;  ///< empty without ZeRO
    ParameterGroup frozen;
    std::map<std::string, std::string> shared;  ///< from names to the names under which their tensors are stored
    std::vector<std::string> buffers;

    torch::Value root() const { return archive.root(); }
    std::optional<std::int64_t> integer(std::string_view key) const;
    /// One of ds_config's ZeRO settings.
    std::optional<torch::Value> zero_setting(std::string_view key) const;
    std::string version() const;  ///< of DeepSpeed; "" if unknown
};

/// Throws Error "FILE: ..." if its structure is not DeepSpeed's. Adds to `notes`, see open_step_file().
ModelFile read_model_file(const std::filesystem::path& path, std::vector<std::string>& notes);

/// The number of elements of each parameter.
std::vector<Index> numels(const ParameterGroup& group);

}  // namespace tpx::formats::deepspeed
