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
    if (plain.empty() || plain.is_absolute() || *plain.begin() == ".." || !plain.has_filename())
        throw usage_error("data file '{}': --data-store requires a path below the folder of the data file", path);
    if (plain.begin()->string().starts_with(reserved_prefix))
        throw usage_error("data file '{}': names that begin with '{}' are reserved in a data store", path,
                          reserved_prefix);
    return plain;
}

}  // namespace

std::vector<DataStoreFile> stored_data_files(const DataPosition& position) {
    if (position.files.empty()) throw usage_error("--data-store: the data position lists no files");
    std::vector<DataStoreFile> files;
    const auto add = [&](const fs::path& path, bool is_optional) {
        const auto known = std::ranges::find(files, path, &DataStoreFile::path);
        if (known == files.end())
            files.push_back({path, is_optional});
        else
            known->is_optional = known->is_optional && is_optional;
    };
    for (const DataFile& file : position.files) {
        const fs::path path = path_in_store(file.path);
        add(path, false);
        if (path.extension() == ".idx") add(fs::path{path}.replace_extension(".bin"), false);
        if (path.extension() == ".bin") add(fs::path{path}.replace_extension(".idx"), true);
    }
    return files;
}

std::map<std::string, StoredData> read_data_record(const fs::path& folder) {
    std::map<std::string, StoredData> files;
    const fs::path path = folder / data_record_name;
    if (!path_exists(path)) return files;
    try {
        const nlohmann::ordered_json json = read_sealed(record_schema, path);
        for (const auto& file : json.at("files"))
            files[file.at("path")] = {file.at("size"), file.at("modified"), file.at("crc")};
        return files;
    } catch (const Error&) {
    } catch (const nlohmann::json::exception&) {
    }
    return {};
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
    return {static_cast<std::uint64_t>(status.st_size), status.st_mtim.tv_sec * second + status.st_mtim.tv_nsec, 0,
            status.st_mode & 0777};
}

}  // namespace tpx::formats
