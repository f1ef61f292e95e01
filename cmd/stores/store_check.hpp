// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "cmd/hosts/background_check.hpp"
#include "cmd/stores/store_survey.hpp"

#include <atomic>
#include <optional>
#include <string>
#include <utility>
#include <vector>

namespace tpx::cli {

/// Which files of the current state are intact.
struct StoreCheck {
    std::vector<StoredFile> files;                                  ///< each with the hosts whose copies are intact
    std::vector<std::string> notes;                                 ///< damaged and missing copies, one sentence each
    std::vector<std::pair<std::string, std::string>> lost_tensors;  ///< each with a file of which no copy is intact
};

/// How check_state() compares a file with the manifest.
enum class CheckFiles {
    completely,  ///< by its checksum: reads all files
    by_size      ///< for a dry run: reads none
};

/// Compares all files of the current state with the manifest. Each rank reads with `threads` threads; if `rate_limiter`
/// is not null, it limits the rate, and one thread of each host reads. Throws an mpi::AgreedError if the number at
/// `signal`, which may be null, is that of a signal. Collective.
StoreCheck check_state(const mpi::Comm& comm, const mpi::Comm& host, const Team& team, const NodeStore& store,
                       const StoreSurvey& survey, int threads, RateLimiter* rate_limiter = nullptr,
                       CheckFiles how = CheckFiles::completely, const std::atomic<int>* signal = nullptr);

/// Compares the files like check_state(), with checksums, but during the move, on other threads, and without a rate
/// limit. The arguments must outlive this object.
class CheckDuringMove {
public:
    /// `known` is the result of check_state() by size.
    CheckDuringMove(const mpi::Comm& host, const Team& team, const NodeStore& store, const StoreSurvey& survey,
                    StoreCheck known, int threads)
        : host_{host}, team_{team}, store_{store}, survey_{survey}, known_{std::move(known)}, threads_{threads} {}

    /// Begins to read, unless it has begun. To be called after planning, so that planning has the disk to itself.
    void start();

    /// Waits for the comparison, and returns what all ranks have found, with notes about new damage only; null if there
    /// is no new damage. Throws an mpi::AgreedError if the number at `signal`, which may be null, is that of a signal.
    /// After an error, finds no damage. Collective.
    const StoreCheck* finish(const mpi::Comm& comm, const std::atomic<int>* signal);

    /// Ends the comparison because the new state is complete: from now on, finish() finds no damage.
    void skip();

private:
    const mpi::Comm& host_;
    const Team& team_;
    const NodeStore& store_;
    const StoreSurvey& survey_;
    StoreCheck known_;
    int threads_;
    std::string faults_;
    bool is_finished_ = false;
    StoreCheck found_;
    std::optional<BackgroundCheck> running_;
};

}  // namespace tpx::cli
