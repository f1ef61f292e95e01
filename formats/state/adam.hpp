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

/// What an optimizer of Adam's kind is told for a group of parameters.
struct AdamSettings {
    double lr = 0;
    double initial_lr = 0;  ///< that the scheduler began with, or the largest; lr where nothing tells
    double beta1 = 0.9;
    double beta2 = 0.999;
    double eps = 1e-8;
    double weight_decay = 0;

    friend bool operator==(const AdamSettings&, const AdamSettings&) = default;
};

/// What an optimizer of Adam's kind keeps beside tensors, as far as all frameworks tell it.
struct Adam {
    AdamSettings matrices;
    AdamSettings vectors;  ///< of parameters of one axis, which mostly do not decay
    std::int64_t step = 0;
    std::optional<std::int64_t> other_step;  ///< of another parameter, if not all are at `step`

    /// By the name of a parameter's exp_avg: its own settings. Empty where `matrices` and `vectors` tell all.
    std::map<std::string, AdamSettings, std::less<>> own;

    /// Of a parameter with `axes` axes whose exp_avg is called `moment`.
    const AdamSettings& of(std::string_view moment, int axes) const;
};

/// How many axes tensor `t` has, without those of the layers and experts that it may be stacked from.
int own_axes(const Reading& reading, std::span<const Tensor> tensors, std::size_t t);

/// The element of a tensor of one f32 or f64. Throws Error for others.
double scalar(const torch::Archive& archive, const torch::StoredTensor& tensor);

/// Sets what an entry `key` of param_groups says, which may be a tensor of one element in `archive`, if there is one;
/// others are passed over. Throws Error for a malformed one.
void set(AdamSettings& settings, std::string_view key, torch::Value value, const torch::Archive* archive);

/// The optimizer of `source`: by Megatron's common state, or as its driver tells; nothing when it tells none. Names are
/// those of `source`. Throws Error when what it tells is malformed.
std::optional<Adam> adam_of(Source& source);

}  // namespace tpx::formats
