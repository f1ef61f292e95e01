// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <atomic>
#include <functional>
#include <future>

namespace tpx::cli {

/// A check that reads files: throws Error if it fails, also soon after `cancelled`, if not null, is true.
using ContentCheck = std::function<void(const std::atomic<bool>* cancelled)>;

/// A ContentCheck on another thread of low priority, so that it reads while bytes travel. The destructor cancels it and
/// waits for it.
class RunningCheck {
public:
    explicit RunningCheck(ContentCheck check);
    ~RunningCheck() { cancelled_ = true; }
    RunningCheck(const RunningCheck&) = delete;
    RunningCheck& operator=(const RunningCheck&) = delete;

    /// Waits for the check. Throws Error if the number at `signal`, which may be null, is that of a signal.
    void wait(const std::atomic<int>* signal);

    /// Throws what the check threw.
    void finish() { done_.get(); }

private:
    std::atomic<bool> cancelled_{false};
    ContentCheck check_;
    std::future<void> done_;
};

}  // namespace tpx::cli
