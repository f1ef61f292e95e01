// SPDX-License-Identifier: Apache-2.0
#include "formats/files/data/data_store.hpp"

#include "formats/files/store/sealed_json.hpp"
#include "lib/core/error.hpp"
#include "lib/core/file.hpp"
#include "lib/core/path.hpp"
#include "lib/core/write_file.hpp"

#include <fcntl.h>
#include <sys/stat.h>

#include <algorithm>
#include <cerrno>

namespace tpx::formats {
namespace {

namespace fs = std::filesystem;

constexpr std::string_view record_schema = "tpx.data-store/1";

/// `path` in the form under which a data store contains it.
fs::path path_in_store(const std::string& path) {
    const fs::path plain = fs::path{path}.lexically_normal();
    if (plain.empty() || plain.is_absolute() || *plain.begin() == ".." || !plain.has_filename() ||
        plain == data_record_name)
        throw usage_error(
            "data file '{}': --data-store requires paths that are relative to the data file, without '..'", path);
    return plain;
}

}  // namespace

std::vector<fs::path> stored_data_files(const DataPosition& position) {
    if (position.files.empty()) throw usage_error("--data-store: the data position lists no files");
    std::vector<fs::path> paths;
    const auto add = [&](const fs::path& path) {
        if (std::ranges::find(paths, path) == paths.end()) paths.push_back(path);
    };
    for (const DataFile& file : position.files) {
        const fs::path path = path_in_store(file.path);
        const bool is_megatron = path.extension() == ".idx" || path.extension() == ".bin";
        if (is_megatron) add(fs::path{path}.replace_extension(".idx"));
        add(is_megatron ? fs::path{path}.replace_extension(".bin") : path);
    }
    return paths;
}

std::map<std::string, StoredData> read_data_record(const fs::path& folder) {
    std::map<std::string, StoredData> files;
    const fs::path path = folder / data_record_name;
    if (!path_exists(path)) return files;
    const nlohmann::ordered_json json = read_sealed(record_schema, path);
    for (const auto& file : json.at("files"))
        files[file.at("path")] = {file.at("size"), file.at("modified"), file.at("crc")};
    return files;
}

void write_data_record(const fs::path& folder, const std::map<std::string, StoredData>& files) {
    nlohmann::ordered_json list = nlohmann::ordered_json::array();
    for (const auto& [path, file] : files)
        list.push_back({{"path", path}, {"size", file.size}, {"modified", file.modified}, {"crc", file.crc}});
    write_file(folder / data_record_name, sealed(record_schema, {{"files", std::move(list)}}));
}

StoredData stored_data_at(const fs::path& path) {
    const Fd file = open_file(path, O_RDONLY);
    struct stat status {};
    if (::fstat(file.get(), &status) != 0) throw system_failure(path, errno);
    if (!S_ISREG(status.st_mode)) throw failure("{}: is not a regular file", path.string());
    constexpr std::int64_t second = 1'000'000'000;
    return {static_cast<std::uint64_t>(status.st_size), status.st_mtim.tv_sec * second + status.st_mtim.tv_nsec, 0};
}

}  // namespace tpx::formats
