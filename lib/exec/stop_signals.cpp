// SPDX-License-Identifier: Apache-2.0
#include "lib/exec/stop_signals.hpp"

#include <signal.h>
#include <time.h>
#include <unistd.h>

#include <array>
#include <cstddef>
#include <cstdint>

namespace tpx {
namespace {

constexpr std::array<int, 4> handled = {SIGTERM, SIGINT, SIGUSR1, SIGPIPE};

// Globals, because a signal handler has no other way to reach them.
std::atomic<int> received{0};
std::atomic<bool> shielded{false};
std::array<struct sigaction, handled.size()> before;

// When the first signal was received, in nanoseconds; launchers may send the same signal twice in a row.
std::atomic<std::int64_t> received_at{0};
constexpr std::int64_t duplicate_signal_window = 100'000'000;

std::int64_t nanoseconds() {
    struct timespec time {};
    ::clock_gettime(CLOCK_MONOTONIC, &time);
    return time.tv_sec * std::int64_t{1'000'000'000} + time.tv_nsec;
}

extern "C" void remember(int signal) {
    int none = 0;
    if (received.compare_exchange_strong(none, signal)) {
        received_at = nanoseconds();
    } else if (!shielded && received_at != 0 && nanoseconds() - received_at > duplicate_signal_window) {
        ::_exit(static_cast<int>(exit_of(signal)));
    }
}

static_assert(std::atomic<int>::is_always_lock_free);

}  // namespace

StopSignals::StopSignals() {
    received = 0;
    received_at = 0;
    shielded = false;
    struct sigaction action {};
    action.sa_handler = remember;
    // Interrupted reads and writes continue: they are short, and the flag is checked between them.
    action.sa_flags = SA_RESTART;
    for (std::size_t k = 0; k < handled.size(); ++k) {
        if (handled[k] == SIGPIPE) action.sa_handler = SIG_IGN;
        sigaction(handled[k], &action, &before[k]);
    }
}

StopSignals::~StopSignals() {
    if (shielded) return;  // the handlers stay until the process has ended, which takes a while under MPI
    for (std::size_t k = 0; k < handled.size(); ++k) sigaction(handled[k], &before[k], nullptr);
}

const std::atomic<int>& StopSignals::signal() const { return received; }

void StopSignals::shield() const { shielded = true; }

void check_not_stopped(const std::atomic<int>* signal, std::string_view what) {
    if (const int number = signal == nullptr ? 0 : signal->load(); number != 0)
        throw Error{exit_of(number), "stopped on request{}", what};
}

Exit exit_of(int signal) { return signal == SIGINT ? Exit::interrupted : Exit::resumable; }

}  // namespace tpx
