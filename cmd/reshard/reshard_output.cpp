// SPDX-License-Identifier: Apache-2.0
#include "cmd/reshard/reshard_output.hpp"

#include "lib/core/units.hpp"
#include "lib/exec/draft_files.hpp"
#include "lib/exec/journal.hpp"
#include "lib/exec/partial.hpp"

#include <nlohmann/json.hpp>

#include <optional>

namespace tpx::cli {
namespace {

/// A message about what a user can continue after a run that ended with `exit`; empty if nothing.
std::string kept_after(const PartialDirectory& partial, Exit exit) {
    const bool is_stop = exit == Exit::resumable || exit == Exit::interrupted;
    if (!is_stop && partial.attempt() == 0) return {};
    std::optional<Journals> journals;
    try {
        journals = read_journals(partial.path());
    } catch (const Error&) {
        return fmt::format("{} is kept, but its journals cannot be read", partial.path().string());
    }
    if (!journals || journals->entries.empty()) return {};
    return fmt::format("{} of {} are written to {}; run the same command to continue, or add --restart to start over",
                       format_bytes(static_cast<double>(journals->bytes())),
                       format_bytes(static_cast<double>(journals->header.total)), partial.path().string());
}

}  // namespace

Naming naming_of(const ReshardOptions& options, const ReshardJob& job,
                 const std::shared_ptr<formats::Replaceable>& replaceable) {
    const Draft& draft = job.conversion.draft;
    return {.out = options.output,
            .force = options.force,
            .check_replaceable = [replaceable](const std::filesystem::path& occupant) { replaceable->check(occupant); },
            .source = options.checkpoint,
            .request = job.request,
            .restart = options.restart,
            .is_complete = [&draft](const std::filesystem::path& folder) { return has_all_files(draft, folder); }};
}

void keep_or_discard(const mpi::Comm& comm, PartialDirectory& partial, const mpi::AgreedError& error) {
    std::string kept;
    if (comm.rank() == 0) mpi::run_watched([&] { kept = kept_after(partial, error.exit()); });
    mpi::broadcast(comm, kept);
    if (!kept.empty()) {
        partial.keep();
        throw mpi::AgreedError{Error{error.exit(), "{}; {}", error.what(), kept}};
    }
    std::string fault;
    if (comm.rank() == 0) mpi::run_watched([&] { fault = partial.discard(); });
    mpi::broadcast(comm, fault);
    if (fault.empty()) throw mpi::AgreedError{error};
    throw mpi::AgreedError{Error{error.exit(), "{}; {} is left, as it cannot be removed: {}", error.what(),
                                 partial.path().string(), fault}};
}

void clean(const std::string& output, Output& out) {
    auto removed = nlohmann::ordered_json::array();
    for (const PartialOutput& partial : partials_of(without_slashes(output))) {
        remove_partial(partial.path);
        if (!out.json()) out.result("removed {}, {}\n", printable(partial.path.string()), partial.what);
        removed.push_back(partial.path.string());
    }
    if (out.json()) return out.object("tpx.reshard-clean/1", {{"output", output}, {"removed", removed}});
    if (removed.empty()) out.result("nothing to remove for {}\n", printable(output));
}

}  // namespace tpx::cli
