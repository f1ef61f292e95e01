// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <string_view>
#include <vector>

namespace tpx {

/// What a thread of execute() does at a time.
enum class Stage { create, read, copy, checksum, write, sync };
inline constexpr std::size_t stage_count = 6;
inline constexpr std::array<std::string_view, stage_count> stage_names{"create",   "read",  "copy",
                                                                       "checksum", "write", "sync"};

/// A period of time that one thread spent on one stage.
struct TimelineSpan {
    Stage stage = Stage::create;
    std::chrono::steady_clock::time_point begin;
    std::chrono::steady_clock::time_point end;
    std::uint64_t bytes = 0;  ///< read from the file or written to it
    std::uint32_t file = 0;   ///< a source file for `read`, a target file for `checksum` and `write`
};

/// How one thread spends its time: the total for each stage, which other threads may read, and the spans.
class Timeline {
public:
    /// Keeps the first `most_spans` spans; with 0, none.
    explicit Timeline(std::size_t most_spans) : most_spans_{most_spans} {}

    std::uint64_t nanoseconds(Stage stage) const { return sums_[static_cast<std::size_t>(stage)]; }
    const std::vector<TimelineSpan>& spans() const { return spans_; }
    std::uint64_t dropped() const { return dropped_; }

    void add(const TimelineSpan& span) {
        sums_[static_cast<std::size_t>(span.stage)] +=
            static_cast<std::uint64_t>(std::chrono::nanoseconds{span.end - span.begin}.count());
        if (spans_.size() < most_spans_)
            spans_.push_back(span);
        else
            dropped_ += most_spans_ > 0;
    }

private:
    std::size_t most_spans_;
    std::array<std::atomic<std::uint64_t>, stage_count> sums_{};
    std::vector<TimelineSpan> spans_;
    std::uint64_t dropped_ = 0;
};

/// Adds the time from its construction to its destruction to a timeline.
class ScopedTimer {
public:
    ScopedTimer(Timeline& timeline, Stage stage, std::uint32_t file = 0) : timeline_{timeline} {
        span.stage = stage;
        span.file = file;
        span.begin = std::chrono::steady_clock::now();
    }
    ~ScopedTimer() {
        span.end = std::chrono::steady_clock::now();
        timeline_.add(span);
    }
    ScopedTimer(const ScopedTimer&) = delete;
    ScopedTimer& operator=(const ScopedTimer&) = delete;

    TimelineSpan span;

private:
    Timeline& timeline_;
};

}  // namespace tpx
