// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "cmd/jobs/reshard_job.hpp"
#include "cmd/output/output.hpp"
#include "formats/replaceable.hpp"
#include "lib/exec/publish.hpp"

#include <memory>
#include <string>

// The folder in which tpx reshard writes its output until the output is complete.
namespace tpx::cli {

/// How the output of `job` gets its name.
Naming naming_of(const ReshardOptions& options, const ReshardJob& job,
                 const std::shared_ptr<formats::Replaceable>& replaceable);

/// Keeps the folder if a later run can continue it and either `error` is a stop on request or the folder is that of an
/// earlier run; otherwise removes it. Throws `error`, with what became of the folder. Collective.
[[noreturn]] void keep_or_discard(const mpi::Comm& comm, PartialDirectory& partial, const mpi::AgreedError& error);

/// Removes the unfinished outputs for `output` that earlier runs have left, and lists them. Throws Error if a run is
/// active.
void clean(const std::string& output, Output& out);

}  // namespace tpx::cli
