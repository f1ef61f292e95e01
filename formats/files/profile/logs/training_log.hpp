// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "formats/files/profile/logs/framework_log.hpp"
#include "formats/files/profile/logs/log_run.hpp"
#include "formats/files/profile/table.hpp"

#include <cstddef>
#include <filesystem>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

namespace tpx::formats {

/// Reads the log of a training job of a framework in framework_log.hpp, or the metrics that a tracker recorded, piece
/// by piece; its memory does not grow with the log, except for long lines.
class TrainingLogReader {
public:
    TrainingLogReader();
    /// Reads the next piece. Lines can be split between pieces; only the first 16 MiB of a line are read.
    void read(std::string_view piece);
    /// Ends the last line. Returns the runs of the log; restarts with the same settings are one run. Each run has steps
    /// or ran out of memory, unless it is the only one.
    std::vector<LogRun> finish();
    /// Whether the log has no bytes.
    bool is_empty() const { return is_empty_; }

private:
    void end_line();
    void start_run();

    std::vector<std::unique_ptr<FrameworkLog>> frameworks_;
    std::string line_;
    std::vector<LogRun> runs_;
    bool is_empty_ = true;
};

/// The runs of one log.
struct TrainingLog {
    std::string file;
    std::vector<LogRun> runs;
    bool is_empty = false;
};

/// The runs of the log `text`; `file` is its name in messages.
TrainingLog parse_training_log(std::string_view text, std::string_view file);

/// The same for the file or pipe at `path`, or for standard input if `path` is "-"; all may be compressed with gzip.
/// Throws Error.
TrainingLog read_training_log(const std::string& path);

}  // namespace tpx::formats
