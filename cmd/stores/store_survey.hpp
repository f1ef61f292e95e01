// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "cmd/hosts/migration.hpp"
#include "cmd/stores/node_store.hpp"
#include "formats/files/store/manifest.hpp"
#include "formats/files/store/switch_record.hpp"
#include "lib/exec/rate_limiter.hpp"

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace tpx::cli {

/// Summary of the store of one host.
struct StoreSummary {
    std::string current;  ///< the name of the current state; empty: none
    std::string fault;    ///< why the current state cannot be used; empty: it can
    std::string job;      ///< of the current state, like the members up to `digest`
    std::int64_t iteration = 0;
    std::uint64_t epoch = 0;
    std::string change;
    std::string digest;  ///< of its manifest
    std::optional<formats::SwitchRecord> prepared;
    std::optional<formats::SwitchRecord> decision;
    std::string last_state;  ///< the newest state that the store was switched to, usable or not; empty: none
    std::uint64_t last_epoch = 0;
    std::string record_fault;           ///< why a record of a switch cannot be read; empty: both can
    std::vector<std::string> states;    ///< all that are there
    std::vector<std::string> stagings;  ///< names of entries that unfinished changes left in staging
};

/// The epoch in the name of a state; 0 if it has none.
std::uint64_t epoch_of_name(const std::string& state);

/// The summary of a store. A missing folder is an empty store.
StoreSummary summary_of(const NodeStore& store);

/// Whether the store has lost the state that it was last switched to, and that state is newer than `newest` or another
/// state of the same epoch.
bool lacks_last_state(const StoreSummary& summary, const formats::Manifest& newest);

/// A summary as text, and back.
std::string to_text(const StoreSummary& summary);
StoreSummary parse_summary(const std::string& text);

/// The stores of all hosts, the same on all ranks.
struct StoreSurvey {
    std::vector<StoreSummary> hosts;            ///< the summaries of lost hosts are empty
    std::optional<formats::Manifest> manifest;  ///< of the current state with the highest epoch
    std::vector<bool> has_current;              ///< by host, whether `manifest` is that of its current state

    /// One more than the highest epoch that any store has a trace of, so that no name of a state is used twice.
    std::uint64_t next_epoch() const;
};

/// Gathers the summaries of all stores. Collective.
std::vector<StoreSummary> gather_summaries(const mpi::Comm& comm, const Team& team, const NodeStore& store);

/// Finds the current state of all stores. `outdated` names hosts whose stores count as empty, unless their state is the
/// newest of the other hosts. Throws an mpi::AgreedError if stores have states of different jobs, iterations or epochs,
/// or (no) if a host has lost a newer state than the others have. Collective.
StoreSurvey survey_stores(const mpi::Comm& comm, const Team& team, const NodeStore& store,
                          const std::vector<std::string>& outdated);

}  // namespace tpx::cli
