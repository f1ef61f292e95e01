// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "cmd/jobs/reshard_job.hpp"
#include "cmd/output/output.hpp"
#include "formats/replaceable.hpp"
#include "lib/exec/publish.hpp"

#include <memory>
#include <string>

// The unfinished folder in which tpx reshard makes its output: how it begins, and what becomes of it.
namespace tpx::cli {

/// Makes the folder for the output of `job`, or takes over that of an earlier run. Collective; throws as
/// PartialDirectory does.
PartialDirectory make_partial(const mpi::Comm& comm, const ReshardOptions& options, const ReshardJob& job,
                              const std::shared_ptr<formats::Replaceable>& replaceable);

/// Leaves the folder where a later run can use what it contains, and `error` is a stop on request or the folder is that
/// of an earlier run; otherwise removes it. Throws an error that says what `error` says and what became of the folder.
/// Collective.
[[noreturn]] void leave_or_discard(const mpi::Comm& comm, PartialDirectory& partial, const mpi::AgreedError& error);

/// Removes what runs that have ended left of `output`, and prints it. Throws Error where a run is active.
void clean(const std::string& output, Output& out);

}  // namespace tpx::cli
