// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "cmd/commands.hpp"
#include "cmd/reading.hpp"
#include "formats/convert/conversion.hpp"
#include "formats/files/digests_file.hpp"
#include "lib/change/hosts.hpp"
#include "lib/change/moves.hpp"
#include "lib/core/file.hpp"

#include <optional>
#include <vector>

namespace tpx::cli {

/// What `tpx reshard` will do: the source, the target and the moves between their files.
struct ReshardJob {
    Opened opened;
    formats::Target target;
    formats::Conversion conversion;
    Moves moves;
    std::uint64_t request = 0;                         ///< digest of the source, the output and the moves
    Fd zeros;                                          ///< replaces missing pieces, with --allow-missing
    std::vector<Host> rates;                           ///< of hosts, from --hardware
    std::optional<formats::RecordedDigests> recorded;  ///< of the source, if verify --write recorded any
    std::optional<Opened> whole;                       ///< the source as stored, if it has digests and `opened` differs
    Catalogue recorded_files;                          ///< the source's files that have digests
};

/// The job that `options` ask for, or that their plan file describes. Nothing is written. Throws Error "CKPT: cause"
/// for a source that cannot be read or converted, and with exit status 2 for invalid options.
ReshardJob prepare(const ReshardOptions& options);

}  // namespace tpx::cli
