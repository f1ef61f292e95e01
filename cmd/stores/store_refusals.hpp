// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "cmd/stores/store_survey.hpp"

#include <cstddef>
#include <string>
#include <vector>

// Why stores cannot be used together. Each message names all hosts concerned, and the --rejoin that helps: it contains
// the hosts `outdated`, which the user has named already.
namespace tpx::cli {

/// Refuses the hosts `others`, whose states are not that of host number `newest`.
[[noreturn]] void refuse_other_states(const Team& team, const std::vector<StoreSummary>& hosts, std::size_t newest,
                                      const std::vector<std::size_t>& others, const std::vector<std::string>& outdated);

/// Refuses to take an older state, that of host number `newest`, for the current one because the hosts `lacking` have
/// lost a newer one.
[[noreturn]] void refuse_lost_states(const Team& team, const std::vector<StoreSummary>& hosts, std::size_t newest,
                                     const std::vector<std::size_t>& lacking, const std::vector<std::string>& outdated);

/// Throws an mpi::AgreedError (no) if records of a switch cannot be read on hosts that `outdated` does not name: their
/// stores may have been switched to any state.
void require_records(const Team& team, const std::vector<StoreSummary>& hosts,
                     const std::vector<std::string>& outdated);

}  // namespace tpx::cli
