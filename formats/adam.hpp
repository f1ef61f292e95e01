// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <optional>

namespace tpx::formats {

struct Source;

/// What an optimizer of Adam's kind keeps beside tensors, as far as all frameworks tell it. Weight decay is that of the
/// parameters that have any.
struct Adam {
    double lr = 0;
    double initial_lr = 0;  ///< that the scheduler began with, or the largest; lr where nothing tells
    double beta1 = 0.9;
    double beta2 = 0.999;
    double eps = 1e-8;
    double weight_decay = 0;
    std::int64_t step = 0;
};

/// The optimizer of `source`, read from Megatron's common state, or from the param_groups and steps of a DCP
/// checkpoint; nothing when it tells none. Throws Error when what it tells is malformed.
std::optional<Adam> adam_of(Source& source);

}  // namespace tpx::formats
