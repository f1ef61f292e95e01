// SPDX-License-Identifier: Apache-2.0
#include "cmd/output/output_file.hpp"

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

namespace fs = std::filesystem;

std::optional<FileId> file_id(const fs::path& path) {
    const std::string text = path.string();
    if (text.empty() || text.starts_with("/dev/") || text.starts_with("/proc/") || !path_is_file(path))
        return std::nullopt;
    struct stat status {};
    if (::stat(path.c_str(), &status) != 0) return std::nullopt;
    return FileId{status.st_dev, status.st_ino};
}

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
    std::map<FileId, std::string> used;  // what writing to each file would do
    for (const auto& [path, file] : record.files()) used.emplace(FileId{file.device, file.inode}, "overwrite an input");
    std::map<std::string, std::string> names;
    for (const OutputFile& output : outputs) {
        if (output.file.empty()) continue;
        const std::optional<FileId> id = file_id(output.file);
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
