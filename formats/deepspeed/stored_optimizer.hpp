// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "formats/deepspeed/writer_grid.hpp"
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

/// A value that an optimizer stores once for each parameter group, such as the step.
struct Scalar {
    std::string name;
    std::variant<std::int64_t, double, OneElement> value;
};

/// `value` as a scalar; unset if it is neither a number nor a tensor without axes.
std::optional<Scalar> scalar_of(std::string_view name, const torch::Archive& archive, torch::Value value);

/// A parameter group and its settings. Under ZeRO 3, its sub-groups are joined.
struct StoredGroup {
    std::vector<std::string> names;  ///< in flattening order, before round_robin_gradients reorders them
    torch::Value settings;           ///< from param_groups; None if unknown
    std::vector<Scalar> scalars;
    int expert_ranks = 1;  ///< number of ranks that experts are split across
};

/// The stored optimizer of one pipeline stage: of ZeRO 1 or 2, of ZeRO 3, or in a universal checkpoint. Entries that
/// neither are nor describe partitions are copied unchanged into a new one.
struct StoredOptimizer {
    std::filesystem::path path;
    torch::Archive archive;
    torch::Value tree;  ///< the dict of the optimizer
    torch::Value root;  ///< of its file; None for a universal checkpoint
    std::vector<StoredGroup> groups;
    bool staged = true;        ///< false: BF16_Optimizer
    bool elastic = false;      ///< a list of states without settings
    bool aligned = false;      ///< parameters start at multiples of 16 bytes in the training dtype
    bool round_robin = false;  ///< ZeRO 1 and 2 assign parameters to ranks in turn
};

/// The optimizer of pipeline stage `stage`; in a universal checkpoint, all stages have the first rank's. Throws Error
/// "FILE: ..." if its structure is not DeepSpeed's.
StoredOptimizer read_stored_optimizer(const WriterGrid& grid, int stage, bool universal);

/// The dtype in which a model is trained and its modules are stored.
DType training_dtype(const ModelFile& model);

}  // namespace tpx::formats::deepspeed
