// SPDX-License-Identifier: Apache-2.0
#include "cmd/hosts/background_check.hpp"

#include "lib/exec/stop_signals.hpp"

#include <sys/resource.h>

#include <chrono>
#include <thread>
#include <utility>

namespace tpx::cli {
namespace {

/// Gives this thread, and threads that it starts, the lowest priority.
void lower_priority() { ::setpriority(PRIO_PROCESS, 0, 19); }  // on Linux, affects only the calling thread

}  // namespace

BackgroundCheck::BackgroundCheck(ContentCheck check)
    : check_{std::move(check)},
      done_{std::async(std::launch::async | std::launch::deferred, [this, caller = std::this_thread::get_id()] {
          if (std::this_thread::get_id() != caller) lower_priority();
          check_(&cancelled_);
      })} {}

void BackgroundCheck::wait(const std::atomic<int>* signal) {
    while (done_.wait_for(std::chrono::milliseconds{10}) == std::future_status::timeout) check_not_stopped(signal);
}

}  // namespace tpx::cli
