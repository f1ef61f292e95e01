// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "cmd/migrate.hpp"
#include "cmd/node_store.hpp"
#include "formats/store/manifest.hpp"
#include "formats/store/switch_record.hpp"

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace tpx::cli {

/// What the store of one host says about itself.
struct StoreSummary {
    std::string current;  ///< the name of the current state; empty: none
    std::string fault;    ///< why the current state cannot be used; empty: it can
    std::string job;      ///< of the current state, like what follows
    std::int64_t iteration = 0;
    std::uint64_t epoch = 0;
    std::string change;
    std::string digest;  ///< of its manifest
    std::optional<formats::SwitchRecord> prepared;
    std::optional<formats::SwitchRecord> decision;
    std::vector<std::string> states;    ///< all that are there
    std::vector<std::string> stagings;  ///< what unfinished changes left
};

/// The summary of a store; a folder that is missing is an empty store.
StoreSummary summary_of(const NodeStore& store);

/// A summary as text, and back.
std::string to_text(const StoreSummary& summary);
StoreSummary parse_summary(const std::string& text);

/// The stores of all hosts, the same on all ranks.
struct StoreSurvey {
    std::vector<StoreSummary> hosts;            ///< empty summaries of lost hosts
    std::optional<formats::Manifest> manifest;  ///< of the current state with the highest epoch
    std::vector<bool> has_current;              ///< by host, whether its current state is that one

    /// An epoch that no host has seen.
    std::uint64_t next_epoch() const;
};

/// Gathers the summaries of all stores. Collective.
std::vector<StoreSummary> gather_summaries(const mpi::Comm& comm, const Team& team, const NodeStore& store);

/// Finds the current state of all stores. `outdated` names hosts whose stores count as empty. Throws an
/// mpi::AgreedError when stores have states of different jobs, iterations or epochs. Collective.
StoreSurvey survey_stores(const mpi::Comm& comm, const Team& team, const NodeStore& store,
                          const std::vector<std::string>& outdated);

/// What of the current state is intact.
struct StoreCheck {
    std::vector<StoredFile> files;                                  ///< and the hosts whose copies are
    std::vector<std::string> notes;                                 ///< copies that are not, a sentence each
    std::vector<std::pair<std::string, std::string>> lost_tensors;  ///< names, each with a file of which no copy is
};

/// Reads all files of the current state, and compares them with their checksums. Collective.
StoreCheck check_state(const mpi::Comm& comm, const mpi::Comm& host, const Team& team, const NodeStore& store,
                       const StoreSurvey& survey);

}  // namespace tpx::cli
