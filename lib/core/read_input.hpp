// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <string>

namespace tpx {

/// The bytes of the file or pipe at `path`, or of standard input if `path` is "-". Throws Error if they cannot be read
/// or if there are more than `most`.
std::string read_input(const std::string& path, std::uint64_t most);

/// The name of such an input in messages: `path`, or "standard input".
std::string input_name(const std::string& path);

}  // namespace tpx
