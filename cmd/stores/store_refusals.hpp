// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "cmd/stores/store_survey.hpp"

#include <cstddef>
#include <string>
#include <vector>

// Errors for stores that cannot be used together. Each message names all affected hosts and the value of --rejoin that
// helps, which includes the hosts that the user has already named, `outdated`.
namespace tpx::cli {

/// Throws an mpi::AgreedError about the hosts `others`, whose states are not that of host number `newest`.
[[noreturn]] void refuse_other_states(const Team& team, const std::vector<StoreSummary>& hosts, std::size_t newest,
                                      const std::vector<std::size_t>& others, const std::vector<std::string>& outdated);

/// Throws an mpi::AgreedError (no): the state of host number `newest` cannot be the current one, because the hosts
/// `lacking` have lost a newer one.
[[noreturn]] void refuse_lost_states(const Team& team, const std::vector<StoreSummary>& hosts, std::size_t newest,
                                     const std::vector<std::size_t>& lacking, const std::vector<std::string>& outdated);

/// Throws an mpi::AgreedError (no) if records of a switch cannot be read on hosts that `outdated` does not name: their
/// stores may have been switched to any state.
void require_records(const Team& team, const std::vector<StoreSummary>& hosts,
                     const std::vector<std::string>& outdated);

}  // namespace tpx::cli
