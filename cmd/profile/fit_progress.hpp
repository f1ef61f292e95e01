// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "cmd/output/progress.hpp"
#include "lib/model/fit_count.hpp"

#include <unistd.h>

#include <cstddef>
#include <optional>

namespace tpx::cli {

/// Shows the progress of a fit on a terminal, and nothing elsewhere.
class FitProgress {
public:
    explicit FitProgress(const Output& out) {
        if (isatty(STDERR_FILENO) != 0) progress_.emplace(out, "fit", 0, ProgressUnit::fits);
    }

    /// For the functions of lib/model.
    FitCount* count() { return &count_; }

    /// Sets how many fits will follow that the count does not expect yet.
    void set_later(std::size_t fits) { later_ = fits; }

    /// Erases the progress, so that results can be printed.
    void finish() { progress_.reset(); }

private:
    std::optional<Progress> progress_;
    std::size_t later_ = 0;
    FitCount count_{[this](std::size_t ended, std::size_t expected) {
        if (!progress_) return;
        progress_->set_total(expected + later_);
        progress_->update(ended);
    }};
};

}  // namespace tpx::cli
