// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "lib/change/hosts.hpp"

#include <string_view>
#include <vector>

namespace tpx::formats {

/// The hosts that `argument` names: "4x8" or "4×8" for four hosts of eight GPUs, "slurm" for those of the Slurm job
/// that this process is in, else the path of a file. Throws Error (usage) as parse_hosts and slurm_hosts do, and Error
/// when the file cannot be read.
std::vector<Host> read_hosts(std::string_view argument);

/// The hosts of a file's `text`. It is either TOML, one `[[hosts]]` table each with `name` ("n[0-7]" is eight hosts),
/// `gpus` (1 when left out), the rates `nic`, `disk_read`, `disk_write`, `memory` (bytes per second, or text such as
/// "25 GB/s"), `device_memory` (bytes, or text such as "80GB"), `switch`, `rails`, `lost`, `lost_devices` (numbers from
/// 0) and `spare`; or a hostfile as mpirun reads it, one host a line: "node0 slots=8", "node0:8" or "node0". Throws
/// Error (usage) "FILE:LINE: ..." for anything else, for a host named twice, when there is no host, and for a rate that
/// cannot be right. What `tpx profile hardware` keeps under [measured] is passed over.
std::vector<Host> parse_hosts(std::string_view text, std::string_view file);

/// Whether `text` is TOML: by the name of its file, or by its first line that is no comment.
bool is_hosts_toml(std::string_view text, std::string_view file);

}  // namespace tpx::formats
