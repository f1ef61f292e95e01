// SPDX-License-Identifier: Apache-2.0
#include "lib/exec/stall_guard.hpp"

#include "lib/core/path.hpp"
#include "lib/exec/blocked_call.hpp"

#include <fmt/format.h>
#include <unistd.h>

#include <fstream>

namespace tpx {
namespace {

using namespace std::chrono_literals;

constexpr auto look_interval = 100ms;

std::vector<std::string> threads() { return list_directory("/proc/self/task"); }

// For one thread, a sum that grows while it works: nanoseconds of CPU time, and bytes read and written, whether or not
// they were cached.
std::uint64_t signs_of(const std::string& thread) {
    std::uint64_t sum = 0;
    std::ifstream{fmt::format("/proc/self/task/{}/schedstat", thread)} >> sum;
    std::ifstream file{fmt::format("/proc/self/task/{}/io", thread)};
    std::string name;
    for (std::uint64_t value = 0; file >> name >> value;)
        if (name == "rchar:" || name == "wchar:") sum += value;
    return sum;
}

}  // namespace

StallGuard::StallGuard(const mpi::Comm& comm, std::chrono::seconds patience,
                       std::function<void(const std::string& what)> stalled)
    : patience_{patience},
      stalled_{std::move(stalled)},
      heartbeats_{comm, patience},
      looked_{Clock::now()},
      moved_{looked_},
      hook_{[this](bool working) { look(working); }} {
    for (std::string& thread : threads()) others_.insert(std::move(thread));
}

void StallGuard::look(bool working) {
    const auto now = Clock::now();
    if (now - looked_ < look_interval) return;
    // After more than a second, the main thread was busy elsewhere or the process was stopped: start over.
    if (!working || now - looked_ > 1s) moved_ = now;
    looked_ = now;
    if (const auto lost = heartbeats_.lost_rank())
        stalled_(fmt::format("{} has not answered for {} s", *lost, patience_.count()));
    if (working) look_at_own_work(now);
}

void StallGuard::look_at_own_work(Clock::time_point now) {
    try {
        const std::uint64_t signs = signs_of_life();
        if (signs != signs_) moved_ = now;
        signs_ = signs;
        if (now - moved_ <= patience_) return;
        const std::string call = blocked_call();
        const bool is_sync = call.starts_with("fsync") || call.starts_with("fdatasync") || call.starts_with("close");
        if (is_sync && now - moved_ <= 10 * patience_) return;
        const auto waited = std::chrono::duration_cast<std::chrono::seconds>(now - moved_);
        stalled_(fmt::format("no progress for {} s{}{}", waited.count(), call.empty() ? "" : ": ", call));
    } catch (const std::exception&) {  // /proc cannot be read: nothing is known
        moved_ = now;
    }
}

// A sum that changes while a thread works, and when a thread starts or ends.
std::uint64_t StallGuard::signs_of_life() const {
    std::uint64_t sum = 0;
    for (const std::string& thread : threads())
        if (!others_.contains(thread)) sum += 1 + signs_of(thread);
    return sum;
}

}  // namespace tpx
