// SPDX-License-Identifier: Apache-2.0
#include "formats/torch/steps.hpp"

#include "lib/core/error.hpp"

#include <algorithm>
#include <cmath>

namespace tpx::formats {

void Steps::note(const torch::Archive& archive, torch::Value value) {
    std::int64_t step = 0;
    if (value.is(torch::Kind::integer)) {
        step = value.as_int();
    } else if (const auto tensor = archive.tensor(value); tensor && volume(tensor->shape) == 1) {
        if (tensor->dtype != DType::f32) return;
        const double number = scalar(archive, *tensor);
        if (!(number >= 0 && number < 1e15)) throw failure("the optimizer's step is {}", number);
        step = std::llround(number);
    }
    if (step_ && *step_ != step) other_ = std::min(*step_, step);
    step_ = std::max(step_.value_or(0), step);
}

void Steps::set(Adam& adam) const {
    adam.step = step_.value_or(0);
    adam.other_step = other_;
}

}  // namespace tpx::formats
