// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "formats/encodings/torch/archive.hpp"
#include "formats/state/adam.hpp"

#include <cstdint>
#include <optional>

namespace tpx::formats {

/// The steps of an optimizer's parameters.
class Steps {
public:
    /// Notes one parameter's step, a number or a tensor of `archive`; ignores other values. Throws Error if it cannot
    /// be a step.
    void note(const torch::Archive& archive, torch::Value value);

    /// Sets the steps of `adam`: the highest, and another if not all are equal.
    void set(Adam& adam) const;

private:
    std::optional<std::int64_t> step_;
    std::optional<std::int64_t> other_;
};

}  // namespace tpx::formats
