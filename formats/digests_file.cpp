// SPDX-License-Identifier: Apache-2.0
#include "formats/digests_file.hpp"

#include "lib/core/error.hpp"
#include "lib/core/file.hpp"

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

}  // namespace

std::optional<RecordedDigests> read_digests(const std::filesystem::path& directory) {
    const auto file = directory / digests_file_name;
    if (!std::filesystem::exists(file)) return std::nullopt;
    return in_context([&] { return file.string(); },
                      [&] {
                          try {
                              return parse(Json::parse(read_file(file)));
                          } catch (const Json::exception& mistake) {
                              throw failure("{}", mistake.what());
                          }
                      });
}

void write_digests(const std::filesystem::path& directory, const RecordedDigests& digests) {
    Json json{{"schema", "tpx.digests/1"}, {"tensors", Json::array()}, {"files", Json::array()}};
    for (const auto& tensor : digests.tensors)
        json["tensors"].push_back(
            {{"name", tensor.name}, {"stored", tensor.stored}, {"dtype", tensor.dtype}, {"digest", tensor.digest}});
    for (const auto& file : digests.files)
        json["files"].push_back({{"path", file.path}, {"size", file.size}, {"digest", file.digest}});
    write_file(directory / digests_file_name, json.dump(1) + "\n");
}

Catalogue files_as_tensors(const Catalogue& catalogue) {
    std::set<std::filesystem::path> paths;
    for (const FileEntry& file : catalogue.files) paths.insert(file.path);
    for (const auto& entry : std::filesystem::directory_iterator{catalogue.directory}) {
        const auto path = entry.path().filename();
        if (entry.is_regular_file() && !path.string().starts_with(digests_file_name)) paths.insert(path);
    }
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

}  // namespace tpx::formats
