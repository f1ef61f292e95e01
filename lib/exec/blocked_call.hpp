// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>

namespace tpx {

/// The system call on a file in which another thread of this process waits: "fsync /data/out/0.distcp". Empty if no
/// thread does, or if Linux does not report it.
std::string blocked_call();

}  // namespace tpx
