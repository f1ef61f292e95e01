// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "formats/deepspeed/grid.hpp"
#include "formats/encodings/torch/archive.hpp"

#include <filesystem>
#include <optional>
#include <span>
#include <string>
#include <variant>
#include <vector>

namespace tpx::formats::deepspeed {

/// A tensor of one element.
struct OneElement {
    DType dtype = DType::f32;
    std::string bytes;
};

/// What an optimizer keeps once for a group of parameters, such as its steps.
struct Scalar {
    std::string name;
    std::variant<std::int64_t, double, OneElement> value;
};

/// `value` as a scalar; nothing when it is neither a number nor a tensor of one element.
std::optional<Scalar> scalar_of(std::string_view name, const torch::Archive& archive, torch::Value value);

/// A group of parameters with settings of its own. Of ZeRO 3, sub-groups are joined.
struct OriginGroup {
    std::vector<std::string> names;  ///< in the order of flattening, but for what round_robin_gradients changes in it
    torch::Value settings;           ///< of param_groups; none when unknown
    std::vector<Scalar> scalars;
    int expert_ranks = 1;  ///< over how many ranks experts are spread
};

/// The optimizer of one pipeline stage as it was kept: by ZeRO 1 or 2, by ZeRO 3, or in a universal checkpoint. What is
/// no partition, and tells of none, goes over into a new one as it is.
struct Origin {
    std::filesystem::path path;
    torch::Archive archive;
    torch::Value tree;  ///< the dict of the optimizer
    torch::Value root;  ///< of its file; none when universal
    std::vector<OriginGroup> groups;
    bool staged = true;        ///< false: BF16_Optimizer
    bool elastic = false;      ///< a list of states without settings
    bool aligned = false;      ///< parameters begin at multiples of 16 bytes in the type of training
    bool round_robin = false;  ///< ZeRO 1 and 2 deal parameters out to the ranks
};

/// The optimizer of pipeline stage `stage`; in a universal checkpoint all have that of the first rank. Throws Error
/// "FILE: ..." when it is not built as DeepSpeed builds it.
Origin read_origin(const Grid& grid, int stage, bool universal);

/// The type that a model is trained in, and its modules are kept in.
DType training_dtype(const ModelFile& model);

}  // namespace tpx::formats::deepspeed
