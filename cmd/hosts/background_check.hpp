// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <atomic>
#include <functional>
#include <future>

namespace tpx::cli {

/// A check that reads files: throws Error if it fails, and soon after `cancelled`, which may be null, becomes true.
using ContentCheck = std::function<void(const std::atomic<bool>* cancelled)>;

/// Runs a ContentCheck on another thread with low priority, so that it reads while other threads move bytes. The
/// destructor cancels the check and waits for it.
class BackgroundCheck {
public:
    explicit BackgroundCheck(ContentCheck check);
    ~BackgroundCheck() { cancelled_ = true; }
    BackgroundCheck(const BackgroundCheck&) = delete;
    BackgroundCheck& operator=(const BackgroundCheck&) = delete;

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
