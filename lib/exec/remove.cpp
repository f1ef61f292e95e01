// SPDX-License-Identifier: Apache-2.0
#include "lib/exec/remove.hpp"

#include "lib/core/unfinished.hpp"

#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdint>
#include <cstring>
#include <vector>

namespace tpx {
namespace {

namespace fs = std::filesystem;

struct Entry {
    fs::path path;
    std::uint64_t size = 0;
};

class Removal {
public:
    void run(const fs::path& path) {
        collect(path);
        // The marker comes last and stays if any other file does: it says what these files are.
        std::ranges::stable_sort(files_, {}, [](const Entry& file) {
            return std::pair{file.path.filename() == unfinished_marker, file.size};
        });
        for (const Entry& file : files_) {
            if (file.path.filename() == unfinished_marker && !fault.empty()) continue;
            if (::unlink(file.path.c_str()) != 0) note(file.path);
        }
        for (auto folder = folders_.rbegin(); folder != folders_.rend(); ++folder)
            if (::rmdir(folder->c_str()) != 0) note(*folder);
    }

    std::string fault;

private:
    void collect(const fs::path& path) {
        struct stat status {};
        if (::lstat(path.c_str(), &status) != 0) return note(path);
        if (!S_ISDIR(status.st_mode)) {
            files_.push_back({path, static_cast<std::uint64_t>(status.st_size)});
            return;
        }
        folders_.push_back(path);
        std::error_code error;
        for (auto entry = fs::directory_iterator{path, error}; !error && entry != fs::directory_iterator{};
             entry.increment(error))
            collect(entry->path());
        if (error && fault.empty()) fault = fmt::format("{}: {}", path.string(), error.message());
    }

    void note(const fs::path& path) {
        if (errno != ENOENT && fault.empty()) fault = fmt::format("{}: {}", path.string(), std::strerror(errno));
    }

    std::vector<Entry> files_;
    std::vector<fs::path> folders_;  // each after its parent
};

}  // namespace

std::string remove_tree(const fs::path& path) {
    Removal removal;
    removal.run(path);
    return removal.fault;
}

}  // namespace tpx
