// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "lib/cluster/job.hpp"
#include "lib/cluster/job_model.hpp"
#include "lib/layout/families.hpp"

#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace tpx::formats {

/// What the jobs of a trace keep, by the model that the trace names and the GPUs that they ask for.
struct JobModels {
    struct Entry {
        std::string name;  ///< of the trace; empty: any
        int gpus = 1;      ///< for jobs that ask for so many or more
        std::shared_ptr<const JobModel> model;
    };
    std::vector<Entry> entries;

    /// The model of the first entry that fits `job`; null where none does.
    std::shared_ptr<const JobModel> find(const TraceJob& job) const;
};

/// The models of TOML `text`: see tpx-trace(5). Throws Error (usage) "FILE:LINE: cause".
JobModels parse_models(std::string_view text, std::string_view file, const Families& families);

/// The models in the file at `path`.
JobModels read_models(const std::string& path, const Families& families);

}  // namespace tpx::formats
