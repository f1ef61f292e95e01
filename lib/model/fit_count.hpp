// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <functional>
#include <utility>

namespace tpx {

/// Counts the fits and suggestions of `tpx profile fit` that have ended, to show its progress; the expected number can
/// grow.
class FitCount {
public:
    /// `changed` is called with the numbers of fits that have ended and that are expected in all.
    explicit FitCount(std::function<void(std::size_t ended, std::size_t expected)> changed)
        : changed_{std::move(changed)} {}

    void expect(std::size_t more) { expected_ += more; }
    void end_one() { changed_(++ended_, expected_); }

private:
    std::function<void(std::size_t, std::size_t)> changed_;
    std::size_t ended_ = 0, expected_ = 0;
};

}  // namespace tpx
