// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "lib/change/hosts.hpp"

#include <string_view>
#include <vector>

namespace tpx::formats {

/// The hosts that `argument` names: "4x8" or "4×8" for four hosts with eight GPUs each, "slurm" for those of the
/// current Slurm job, otherwise the path of a file. Throws Error (usage) as parse_hosts() and slurm_hosts() do, and
/// Error if the file cannot be read.
std::vector<Host> read_hosts(std::string_view argument);

/// The hosts of a file's `text`. It is either TOML, with a `[[hosts]]` table for each host with `name` ("n[0-7]" is
/// eight hosts), `gpus` (default 1), the rates `nic`, `disk_read`, `disk_write`, `memory`, `device_copy` and
/// `device_link` (bytes per second, or text such as "25 GB/s"), `device_memory` (bytes, or text such as "80GB"),
/// `device_type`, `switch`, `rails`, `iteration`, `lost`, `lost_devices` (numbers from 0) and `spare`; or a hostfile as
/// mpirun reads it, one host per line: "node0 slots=8", "node0:8" or "node0". Throws Error (usage) "FILE:LINE: ..." for
/// anything else, for a duplicate host, for a file without hosts, and for an implausible rate. Ignores the table
/// [measured] of `tpx profile hardware`.
std::vector<Host> parse_hosts(std::string_view text, std::string_view file);

/// Whether `text` is TOML, according to the name of its file or to its first line that is not a comment.
bool is_hosts_toml(std::string_view text, std::string_view file);

}  // namespace tpx::formats
