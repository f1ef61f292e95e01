// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "lib/core/catalogue.hpp"
#include "lib/layout/reading.hpp"

#include <cstdint>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <string_view>

namespace tpx::torch {
class Archive;
struct StoredTensor;
struct Value;
}  // namespace tpx::torch

namespace tpx::formats {

struct Source;

/// The settings of an Adam-like optimizer for a group of parameters.
struct AdamSettings {
    double lr = 0;
    double initial_lr = 0;  ///< initial lr of the scheduler, or the largest lr; lr if unknown
    double beta1 = 0.9;
    double beta2 = 0.999;
    double eps = 1e-8;
    double weight_decay = 0;

    friend bool operator==(const AdamSettings&, const AdamSettings&) = default;
};

/// The state of an Adam-like optimizer except for its tensors, as far as all frameworks store it.
struct Adam {
    AdamSettings matrices;
    AdamSettings vectors;  ///< of parameters with one axis, which usually have no weight decay
    std::int64_t step = 0;
    std::optional<std::int64_t> other_step;  ///< of another parameter, if not all are at `step`

    /// Settings of each parameter, by the name of its exp_avg. Empty if `matrices` and `vectors` apply to all
    /// parameters.
    std::map<std::string, AdamSettings, std::less<>> own;

    /// The number of each parameter's group, by the name of its exp_avg; empty if groups are not recorded.
    std::map<std::string, int, std::less<>> groups;

    /// The settings of the parameter with `axes` axes whose exp_avg is called `moment`.
    const AdamSettings& of(std::string_view moment, int axes) const;
};

/// The number of axes of tensor `t`, not counting the axes of stacked layers and experts.
int own_axes(const Reading& reading, std::span<const Tensor> tensors, std::size_t t);

/// The element of a tensor of one f32 or f64. Throws Error for others.
double scalar(const torch::Archive& archive, const torch::StoredTensor& tensor);

/// Sets the field of `settings` that belongs to entry `key` of param_groups; ignores other entries. If `archive` is not
/// null, the value may be a tensor of one element in it. Throws Error for a malformed value.
void set(AdamSettings& settings, std::string_view key, torch::Value value, const torch::Archive* archive);

/// The optimizer of `source`, from Megatron's common state or from the source's driver; unset if neither knows one.
/// Names are those of `source`. Throws Error if the settings are malformed.
std::optional<Adam> adam_of(Source& source);

}  // namespace tpx::formats
