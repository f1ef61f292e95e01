// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "formats/profile/table.hpp"

namespace tpx::formats {

/// One run, read off the log of a training job. Times are what Megatron-LM, NeMo, DeepSpeed and torchtitan print of
/// their steps, the bars of the Hugging Face Trainer and of PyTorch Lightning, and where there is none of these what
/// the Trainer and Lightning's profiler say at the end. Plan, samples and memory are what the frameworks say of their
/// arguments and meshes. The first tenth of the steps, and at least two, are left out as warm-up; the seconds are the
/// median of the others. A table of one row under the names of run_quantities(), with a rate where the log has samples
/// per second but not the samples of a step. Throws Error when fewer than three steps are in it.
Table parse_training_log(std::string_view text, std::string_view file);

}  // namespace tpx::formats
