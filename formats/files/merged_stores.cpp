// SPDX-License-Identifier: Apache-2.0
#include "formats/files/merged_stores.hpp"

#include "lib/core/error.hpp"
#include "lib/core/file.hpp"
#include "lib/core/path.hpp"
#include "lib/core/temporary_folder.hpp"

#include <fmt/ranges.h>

#include <unistd.h>

#include <cerrno>
#include <cstdlib>
#include <map>
#include <optional>

namespace tpx::formats {
namespace {

namespace fs = std::filesystem;

// The content of a file in which a framework names its latest iteration; unset for other files.
std::optional<std::string> latest_iteration(const fs::path& inside, const fs::path& file) {
    constexpr std::uint64_t longest = 4096;
    if (inside != "latest_checkpointed_iteration.txt" && inside != "latest") return std::nullopt;
    std::string text = read_file(file, longest);
    text.erase(text.find_last_not_of(" \t\r\n") + 1);
    return text;
}

// Links each regular file below `store` into `folder`, at the same relative path. Returns the number of files.
std::size_t link_files(const fs::path& store, const fs::path& folder) {
    std::size_t count = 0;
    for (const fs::path& inside : list_files_below(store)) {
        const fs::path file = store / inside, link = folder / inside;
        ++count;
        if (entry_exists(link)) {
            if (const auto here = latest_iteration(inside, file), there = latest_iteration(inside, link); here != there)
                throw failure("{}: names iteration {}, but {} in another store; the stores hold different iterations",
                              file.string(), *here, *there);
            const std::uint64_t size = size_of_file(file), other = size_of_file(link);
            if (other != size) throw failure("{}: has {} bytes, but {} in another store", file.string(), size, other);
            continue;
        }
        make_directories(link.parent_path());
        if (::symlink(real_path(file).c_str(), link.c_str()) != 0) throw system_failure(link, errno);
    }
    return count;
}

}  // namespace

fs::path store_of(const std::string& pattern, const Host& host) {
    constexpr std::string_view place = "{host}";
    std::string path = pattern;
    std::size_t at = path.find(place);
    if (at == path.npos)
        throw Error{Exit::usage, "'{}' has no {{host}} in it, the placeholder for the name of each host", pattern};
    for (; at != path.npos; at = path.find(place, at + host.name.size())) path.replace(at, place.size(), host.name);
    return path;
}

MergedStores::MergedStores(const std::string& pattern, std::span<const Host> hosts)
    : folder_{make_temporary_folder("tpx-stores")}, pattern_{pattern} {
    try {
        std::size_t count = 0;
        for (const Host& host : hosts) {
            if (host.lost) {
                lost_.push_back(host.name);
                continue;
            }
            const fs::path store = store_of(pattern, host);
            const std::size_t files = link_files(store, folder_);
            if (files == 0) empty_.push_back(store.string());
            count += files;
        }
        if (count == 0) throw failure("{}: no store of {} hosts has any file", pattern, hosts.size());
    } catch (...) {
        std::error_code ignored;
        fs::remove_all(folder_, ignored);
        throw;
    }
}

MergedStores::~MergedStores() {
    std::error_code ignored;  // a folder of links that is left behind does no harm
    fs::remove_all(folder_, ignored);
}

std::string MergedStores::named(std::string text) const {
    const std::string folder = folder_.string();
    for (std::size_t at = text.find(folder); at != text.npos; at = text.find(folder, at + pattern_.size()))
        text.replace(at, folder.size(), pattern_);
    return text;
}

Error MergedStores::named(const Error& error) const {
    std::string text = named(std::string{error.what()});
    if (!empty_.empty()) text += fmt::format("; no files found in {}", fmt::join(empty_, ", "));
    if (!lost_.empty()) text += fmt::format("; stores of lost hosts are not read ({})", fmt::join(lost_, ", "));
    return Error{error.exit(), "{}", text};
}

std::vector<std::vector<std::uint32_t>> hosts_of_files(const std::string& pattern, std::span<const Host> hosts,
                                                       const fs::path& root, const Catalogue& catalogue) {
    std::vector<std::vector<std::uint32_t>> found(catalogue.files.size());
    for (std::size_t f = 0; f < catalogue.files.size(); ++f) {
        // Not fs::relative(), which would follow the links of merged stores.
        const fs::path inside = catalogue.path(static_cast<std::uint32_t>(f)).lexically_relative(root);
        for (std::uint32_t h = 0; h < hosts.size(); ++h) {
            if (hosts[h].lost) continue;
            const fs::path file = store_of(pattern, hosts[h]) / inside;
            if (!path_is_file(file)) continue;
            const std::uint64_t size = size_of_file(file);
            if (!catalogue.files[f].coding && size != catalogue.files[f].size)
                throw failure("{}: has {} bytes, the checkpoint's has {}", file.string(), size,
                              catalogue.files[f].size);
            found[f].push_back(h);
        }
    }
    return found;
}

std::vector<std::vector<std::uint32_t>> with_computed_files(std::vector<std::vector<std::uint32_t>> holders,
                                                            const Catalogue& catalogue) {
    std::map<std::filesystem::path, std::size_t> stored;
    for (std::size_t f = 0; f < holders.size(); ++f) stored.emplace(catalogue.files[f].path, f);
    for (std::size_t f = holders.size(); f < catalogue.files.size(); ++f) {
        const auto found = stored.find(catalogue.files[f].path);
        if (found == stored.end())
            throw failure("{}: no store has it", (catalogue.directory / catalogue.files[f].path).string());
        holders.push_back(holders[found->second]);
    }
    return holders;
}

}  // namespace tpx::formats
