// SPDX-License-Identifier: Apache-2.0
#include "lib/exec/signals.hpp"

#include <signal.h>

#include <array>
#include <cstddef>

namespace tpx {
namespace {

constexpr std::array<int, 3> stopping = {SIGTERM, SIGINT, SIGUSR1};

// A handler has no other way to reach them.
std::atomic<int> received{0};
std::array<struct sigaction, stopping.size()> before;

extern "C" void remember(int signal) {
    int none = 0;
    received.compare_exchange_strong(none, signal);
}

static_assert(std::atomic<int>::is_always_lock_free);

}  // namespace

StopSignals::StopSignals() {
    received = 0;
    struct sigaction action {};
    action.sa_handler = remember;
    // Interrupted reads and writes go on: they are short, and the flag is looked at between them.
    action.sa_flags = SA_RESTART;
    for (std::size_t k = 0; k < stopping.size(); ++k) sigaction(stopping[k], &action, &before[k]);
}

StopSignals::~StopSignals() {
    for (std::size_t k = 0; k < stopping.size(); ++k) sigaction(stopping[k], &before[k], nullptr);
}

const std::atomic<int>& StopSignals::signal() const { return received; }

Exit exit_of(int signal) { return signal == SIGINT ? Exit::interrupted : Exit::resumable; }

}  // namespace tpx
