// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <filesystem>

namespace tpx::test {

/// Small checkpoints that DeepSpeed wrote at step 2.
inline const std::filesystem::path round_robin = "testdata/deepspeed/zero2-roundrobin-dp4",
                                   zero3 = "testdata/deepspeed/zero3-subgroups-dp2",
                                   mpu = "testdata/deepspeed/mpu-tp2-dp2";

}  // namespace tpx::test
