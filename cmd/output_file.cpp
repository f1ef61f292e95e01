// SPDX-License-Identifier: Apache-2.0
#include "cmd/output_file.hpp"

#include "formats/files/plan/plan_file.hpp"
#include "lib/core/error.hpp"
#include "lib/core/file.hpp"
#include "lib/core/path.hpp"
#include "lib/exec/partial.hpp"

#include <sys/stat.h>

#include <algorithm>
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

namespace tpx::cli {
namespace {

namespace fs = std::filesystem;
using Id = std::pair<dev_t, ino_t>;

/// Identifies a regular file, after following symbolic links. Nothing for other files, and for open descriptors such as
/// /dev/stdout, which are written to, not replaced.
std::optional<Id> id_of(const fs::path& path) {
    const std::string text = path.string();
    if (text.empty() || text.starts_with("/dev/") || text.starts_with("/proc/") || !path_is_file(path))
        return std::nullopt;
    struct stat status {};
    if (::stat(path.c_str(), &status) != 0) return std::nullopt;
    return Id{status.st_dev, status.st_ino};
}

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
    const std::optional<Id> id = id_of(output);
    return std::ranges::any_of(sources, [&](const fs::path& source) { return id_of(source) == id; });
}

}  // namespace

fs::path resolved(const fs::path& path) {
    fs::path plain = fs::absolute(path).lexically_normal(), above = without_slashes(plain);
    plain = above;
    while (!path_exists(above)) above = above.parent_path();
    return above == plain ? real_path(above) : real_path(above) / plain.lexically_relative(above);
}

bool is_inside(const fs::path& path, const fs::path& folder) {
    const fs::path inside = resolved(path), above = resolved(folder);
    return std::ranges::mismatch(above, inside).in1 == above.end();
}

void check_output_files(const PlanOptions& options, const PlanReport& report) {
    const std::pair<const char*, const std::string*> files[] = {{"--output", &options.output},
                                                                {"--launch", &options.launch},
                                                                {"--rank-map", &options.rank_map},
                                                                {"--report", &options.report}};
    for (const auto& [option, file] : files) {
        if (!id_of(*file)) continue;
        if (is_read(*file, options, report))
            throw Error{Exit::usage, "{} {}: is an input, or a file of the checkpoint; choose another name", option,
                        *file};
        if (file == &options.output && size_of_file(*file) > 0 && !formats::is_plan_file(*file))
            throw Error{Exit::usage, "{} {}: exists and is not a plan; remove it, or choose another name", option,
                        *file};
    }
}

void check_outside(const std::string& folder, std::initializer_list<OutputFile> outputs) {
    const auto plain = [](const std::string& path) { return fs::absolute(path).lexically_normal(); };
    for (const OutputFile& output : outputs) {
        if (output.file.empty() || folder.empty()) continue;
        const fs::path inside = plain(output.file).lexically_relative(plain(folder));
        if (!inside.empty() && *inside.begin() != "..")
            throw usage_error("{} {}: is inside {}, which is replaced as a whole; choose a path outside it",
                              output.option, output.file, folder);
    }
}

void check_outputs_apart(std::initializer_list<OutputFile> outputs, const ReadRecord& record) {
    std::map<Id, std::string> used;  // what writing to each file would do
    for (const auto& [path, file] : record.files()) used.emplace(Id{file.device, file.inode}, "overwrite an input");
    std::map<std::string, std::string> names;
    for (const OutputFile& output : outputs) {
        if (output.file.empty()) continue;
        const std::optional<Id> id = id_of(output.file);
        const auto known = id ? used.find(*id) : used.end();
        const std::string name = fs::absolute(output.file).lexically_normal().string();
        const auto twin = names.find(name);
        if (known != used.end() || (twin != names.end() && !name.starts_with("/dev/")))
            throw Error{Exit::usage, "{} {}: would {}; choose another name", output.option, output.file,
                        known != used.end() ? known->second : twin->second};
        const std::string what = fmt::format("overwrite the output of {}", output.option);
        if (id) used.emplace(*id, what);
        names.emplace(name, what);
    }
}

}  // namespace tpx::cli
