// SPDX-License-Identifier: Apache-2.0
#include "formats/files/store/sealed_json.hpp"

#include "lib/core/crc.hpp"
#include "lib/core/error.hpp"
#include "lib/core/file.hpp"

#include <span>

namespace tpx::formats {
namespace {

using Json = nlohmann::ordered_json;

std::string checksum_of(const Json& json) {
    const std::string text = json.dump();
    return fmt::format("{:016x}", Crc64::of(std::as_bytes(std::span{text})));
}

}  // namespace

std::string sealed(std::string_view schema, const Json& members) {
    Json json{{"schema", schema}};
    json.update(members);
    json["crc"] = checksum_of(json);
    return json.dump() + '\n';
}

Json unsealed(std::string_view schema, const std::string& text, const std::filesystem::path& file) {
    Json json = Json::parse(text, nullptr, false);
    if (json.is_discarded() || !json.is_object()) throw failure("{}: is damaged: not a JSON object", file.string());
    if (json.value("schema", Json{}) != Json(schema)) throw failure("{}: its schema is not {}", file.string(), schema);
    const Json stored = json.value("crc", Json{});
    json.erase("crc");
    if (stored != Json(checksum_of(json))) throw failure("{}: is damaged: its checksum is wrong", file.string());
    return json;
}

Json read_sealed(std::string_view schema, const std::filesystem::path& file) {
    return unsealed(schema, read_file(file), file);
}

}  // namespace tpx::formats
