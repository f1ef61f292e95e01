// SPDX-License-Identifier: Apache-2.0
#include "cmd/plan/plan_outputs.hpp"

#include "cmd/output/output_file.hpp"
#include "formats/files/plan/plan_file.hpp"
#include "lib/core/error.hpp"
#include "lib/core/file.hpp"
#include "lib/core/path.hpp"

#include <algorithm>
#include <optional>
#include <string>
#include <utility>
#include <vector>

namespace tpx::cli {
namespace {

namespace fs = std::filesystem;

bool is_in_folder(const fs::path& file, const fs::path& folder) {
    if (!path_is_directory(folder)) return false;
    const fs::path real = real_path(file), above = real_path(folder);
    return std::mismatch(above.begin(), above.end(), real.begin(), real.end()).first == above.end();
}

/// Whether the existing file `output` is also an input.
bool is_read(const fs::path& output, const PlanOptions& options, const PlanReport& report) {
    std::vector<fs::path> sources{options.checkpoint, options.config,     options.model,   options.hosts,
                                  options.hardware,   options.throughput, options.ranks_on};
    sources.insert(sources.end(), options.rules.begin(), options.rules.end());
    if (report.checkpoint) {
        const Catalogue& catalogue = report.checkpoint->opened.source.checkpoint.catalogue;
        // A plan may be kept beside the checkpoint's own files.
        if (is_in_folder(output, options.checkpoint) && !formats::is_plan_file(output)) return true;
        for (const FileEntry& file : catalogue.files) sources.push_back(catalogue.directory / file.path);
    }
    const std::optional<FileId> id = file_id(output);
    return std::ranges::any_of(sources, [&](const fs::path& source) { return file_id(source) == id; });
}

}  // namespace

void check_output_files(const PlanOptions& options, const PlanReport& report) {
    const std::pair<const char*, const std::string*> files[] = {{"--output", &options.output},
                                                                {"--launch", &options.launch},
                                                                {"--rank-map", &options.rank_map},
                                                                {"--report", &options.report}};
    for (const auto& [option, file] : files) {
        if (!file_id(*file)) continue;
        if (is_read(*file, options, report))
            throw Error{Exit::usage, "{} {}: is an input, or a file of the checkpoint; choose another name", option,
                        *file};
        if (file == &options.output && size_of_file(*file) > 0 && !formats::is_plan_file(*file))
            throw Error{Exit::usage, "{} {}: exists and is not a plan; remove it, or choose another name", option,
                        *file};
    }
}

}  // namespace tpx::cli
