// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "lib/core/file.hpp"

#include <string>

// Text from a child process.
namespace tpx::cli {

struct Pipe {
    Fd from;
    Fd into;
};

/// A pipe that programs started later do not inherit. Throws Error.
Pipe make_pipe();

/// All text until the other end of the pipe is closed.
std::string read_all(const Fd& from);

/// Waits for the end of a child process, and returns its status as waitpid(2) gives it.
int wait_for_exit(int process);

}  // namespace tpx::cli
