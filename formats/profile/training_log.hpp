// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "formats/profile/table.hpp"

namespace tpx::formats {

/// One run, read off the log of a training job: what Megatron-LM prints of its arguments, "elapsed time per iteration
/// (ms)", and the "s/it" or "it/s" of progress bars. The first tenth of the steps, and at least two, are left out as
/// warm-up; the seconds are the median of the others. A table of one row under the names of run_quantities(). Throws
/// Error when fewer than three steps are in it.
Table parse_training_log(std::string_view text, std::string_view file);

}  // namespace tpx::formats
