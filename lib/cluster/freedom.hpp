// SPDX-License-Identifier: Apache-2.0
#pragma once

namespace tpx {

/// What a policy may choose for a job.
enum class Freedom {
    none,       ///< its own plan
    resources,  ///< its own plan with another degree of data parallelism
    plans       ///< any plan
};

}  // namespace tpx
