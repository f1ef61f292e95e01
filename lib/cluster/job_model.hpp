// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "lib/layout/layout.hpp"
#include "lib/layout/model_state.hpp"

#include <string_view>

namespace tpx {

/// What a job keeps, and how it is cut where its plan does not say.
struct JobModel {
    ModelState state;
    Layout layout;  ///< dp is what is left of the GPUs

    /// How the job is cut on `gpus` GPUs under the plan called `plan`: three digits are the degrees of pipeline, tensor
    /// and data parallelism, "zero-dp" and "zero-offload" data parallelism with ZeRO 2, other words that begin with a
    /// letter and have no "=" plain data parallelism; all else is a layout or an execution plan, and nothing is
    /// `layout`. Where tp and pp do not fit, they are the largest divisors that do; layers that stages do not divide
    /// are dealt as evenly as can be.
    Layout layout_on(int gpus, std::string_view plan) const;
};

/// A transformer of these sizes: an embedding, and in each layer a matrix that has what is left of `parameters`; 14
/// bytes a parameter, as "train" says. Any tp cuts it. Throws Error (usage) where the embedding is all there is.
ModelState transformer_state(double parameters, int layers, int hidden, int vocabulary);

}  // namespace tpx
