// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>

namespace tpx {

/// What another thread of this process waits for in a system call on a file: "fsync /data/out/0.distcp". Empty where
/// no thread does, or where Linux does not say.
std::string blocked_call();

}  // namespace tpx
