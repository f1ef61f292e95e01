// SPDX-License-Identifier: Apache-2.0
#include "formats/files/digests_file.hpp"

#include "lib/core/error.hpp"
#include "lib/core/file.hpp"
#include "lib/core/path.hpp"
#include "lib/core/write_file.hpp"

#include <sys/stat.h>

#include <nlohmann/json.hpp>

#include <algorithm>
#include <set>

namespace tpx::formats {
namespace {

using Json = nlohmann::ordered_json;

RecordedDigests parse(const Json& json) {
    RecordedDigests digests;
    if (json.at("schema") != "tpx.digests/1") throw failure("schema is not tpx.digests/1");
    for (const Json& tensor : json.at("tensors"))
        digests.tensors.push_back({tensor.at("name"), tensor.at("stored"), tensor.at("dtype"), tensor.at("digest")});
    for (const Json& file : json.at("files"))
        digests.files.push_back({file.at("path"), file.at("size"), file.at("digest")});
    return digests;
}

RecordedDigests read(const std::filesystem::path& file) {
    return in_context(
        [&] { return file.string(); },
        [&] {
            try {
                return parse(Json::parse(read_file(file)));
            } catch (const Json::parse_error& mistake) {
                throw failure("is damaged: not JSON at byte {}; run verify --write to record the digests again",
                              mistake.byte);
            } catch (const Json::exception&) {
                throw failure(
                    "is damaged: an entry is missing or has another type; run verify --write to record the "
                    "digests again");
            }
        });
}

/// Whether `name` is that of a record of digests, or of one that is being written.
bool is_record(const std::string& name) { return name.find(digests_file_name) != name.npos; }

/// The files of the catalogue, and `file` unless it is empty.
std::set<std::filesystem::path> files_of(const Catalogue& catalogue, const std::string& file) {
    std::set<std::filesystem::path> paths;
    for (const FileEntry& entry : catalogue.files) paths.insert(entry.path);
    if (!file.empty()) paths.insert(file);
    return paths;
}

std::filesystem::path folder_of(const Catalogue& catalogue) {
    return catalogue.directory.empty() ? "." : catalogue.directory;
}

/// The files of the catalogue and `file`. If `file` is empty, also all other regular files of the folder except records
/// of digests.
std::set<std::filesystem::path> all_files(const Catalogue& catalogue, const std::string& file) {
    std::set<std::filesystem::path> paths = files_of(catalogue, file);
    const std::filesystem::path folder = folder_of(catalogue);
    if (!file.empty()) return paths;
    for (const std::string& name : list_directory(folder))
        if (!is_record(name) && path_is_file(folder / name)) paths.insert(name);
    return paths;
}

Catalogue as_tensors(const Catalogue& catalogue, const std::set<std::filesystem::path>& paths) {
    Catalogue files{.directory = catalogue.directory};
    for (const auto& path : paths) {
        const auto number = static_cast<std::uint32_t>(files.files.size());
        const std::uint64_t size = size_of_file(catalogue.directory / path);
        files.files.push_back({path, size});
        files.tensors.push_back({path.string(), DType::u8, {static_cast<Index>(size)}});
        files.pieces.push_back(
            {.tensor = number, .file = number, .box = {{0, static_cast<Index>(size)}}, .strides = {1}});
    }
    return files;
}

}  // namespace

std::filesystem::path digests_path(const std::filesystem::path& directory, const std::string& file) {
    return directory / (file.empty() ? std::string{digests_file_name} : fmt::format("{}.{}", file, digests_file_name));
}

std::optional<RecordedDigests> read_digests(const std::filesystem::path& directory) {
    const auto path = digests_path(directory);
    return path_exists(path) ? std::optional{read(path)} : std::nullopt;
}

std::optional<RecordedDigests> read_digests(const Catalogue& catalogue, const std::string& file) {
    const auto own = digests_path(catalogue.directory, file);
    if (path_exists(own)) return read(own);
    if (file.empty()) return std::nullopt;
    // Older versions of tpx wrote one record per folder, whose tensors may belong to another file.
    std::optional<RecordedDigests> digests = read_digests(catalogue.directory);
    if (!digests) return std::nullopt;
    const std::set<std::filesystem::path> paths = files_of(catalogue, file);
    std::erase_if(digests->files, [&](const auto& entry) { return !paths.contains(entry.path); });
    if (digests->files.size() != paths.size()) return std::nullopt;
    return RecordedDigests{.tensors = {}, .files = std::move(digests->files), .has_tensors = false};
}

namespace {

/// The permissions that all recorded files grant: digests are as private as the files.
unsigned common_mode(const std::filesystem::path& folder, const RecordedDigests& digests) {
    unsigned mode = 0666;
    for (const auto& file : digests.files) {
        struct stat status {};
        if (::stat((folder / file.path).c_str(), &status) == 0) mode &= status.st_mode | 0600;
    }
    return mode;
}

}  // namespace

void write_digests(const std::filesystem::path& path, const RecordedDigests& digests) {
    Json json{{"schema", "tpx.digests/1"}, {"tensors", Json::array()}, {"files", Json::array()}};
    for (const auto& tensor : digests.tensors)
        json["tensors"].push_back(
            {{"name", tensor.name}, {"stored", tensor.stored}, {"dtype", tensor.dtype}, {"digest", tensor.digest}});
    for (const auto& file : digests.files)
        json["files"].push_back({{"path", file.path}, {"size", file.size}, {"digest", file.digest}});
    write_file_in_checkpoint(path, json.dump(1) + "\n", common_mode(path.parent_path(), digests));
}

std::vector<std::string> dangling_links(const Catalogue& catalogue) {
    const std::filesystem::path folder = folder_of(catalogue);
    std::vector<std::string> names = list_directory(folder);
    std::erase_if(names, [&](const std::string& name) { return is_record(name) || path_exists(folder / name); });
    return names;
}

Catalogue files_as_tensors(const Catalogue& catalogue, const std::string& file) {
    return as_tensors(catalogue, all_files(catalogue, file));
}

Catalogue files_as_tensors(const Catalogue& catalogue, const std::string& file, const RecordedDigests& digests) {
    std::set<std::filesystem::path> recorded;
    for (const auto& entry : digests.files) recorded.insert(entry.path);
    std::set<std::filesystem::path> paths = all_files(catalogue, file);
    std::erase_if(paths, [&](const auto& path) { return !recorded.contains(path); });
    return as_tensors(catalogue, paths);
}

}  // namespace tpx::formats
