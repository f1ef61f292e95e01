// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <chrono>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace tpx {

/// A period of one thread's time, as shown in a trace.
struct TraceEvent {
    int thread = 0;             ///< 0 is the thread that opens, plans and commits
    std::string_view name;      ///< a literal
    std::int64_t begin = 0;     ///< microseconds since 1970
    std::int64_t duration = 0;  ///< microseconds
    std::uint64_t bytes = 0;    ///< 0: none are counted
    std::string file;           ///< may be empty
};

/// The events of a process, in the order in which they were added.
class Trace {
public:
    using Clock = std::chrono::steady_clock;

    void add(int thread, std::string_view name, Clock::time_point begin, Clock::time_point end, std::uint64_t bytes = 0,
             std::string file = {}) {
        const auto microseconds = [](auto duration) {
            return std::chrono::duration_cast<std::chrono::microseconds>(duration).count();
        };
        const auto since_1970 = system_ + (begin - steady_);
        events.push_back({thread, name, microseconds(since_1970.time_since_epoch()), microseconds(end - begin), bytes,
                          std::move(file)});
    }

    std::vector<TraceEvent> events;
    std::uint64_t dropped = 0;  ///< number of events beyond the limit, which were not kept

private:
    std::chrono::system_clock::time_point system_ = std::chrono::system_clock::now();
    Clock::time_point steady_ = Clock::now();
};

}  // namespace tpx
