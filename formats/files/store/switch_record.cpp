// SPDX-License-Identifier: Apache-2.0
#include "formats/files/store/switch_record.hpp"

#include "formats/files/store/sealed_json.hpp"
#include "lib/core/error.hpp"
#include "lib/core/file.hpp"
#include "lib/core/path.hpp"

#include <algorithm>
#include <array>

namespace tpx::formats {
namespace {

using Json = nlohmann::ordered_json;

constexpr std::string_view switch_schema = "tpx.switch/1";
constexpr std::array<std::string_view, 3> words = {"prepared", "commit", "abort"};

}  // namespace

std::string to_text(const SwitchRecord& record) {
    return sealed(switch_schema, {{"change", record.change},
                                  {"epoch", record.epoch},
                                  {"state", record.state},
                                  {"says", words[static_cast<std::size_t>(record.phase)]},
                                  {"decision_dir", record.decision_dir}});
}

SwitchRecord parse_record(const std::string& text, const std::filesystem::path& file) {
    const Json json = unsealed(switch_schema, text, file);
    try {
        const auto word = std::ranges::find(words, json.at("says").get<std::string>());
        if (word == words.end())
            throw failure("{}: is damaged: unknown status '{}'", file.string(), std::string{json["says"]});
        return {json.at("change"), json.at("epoch"), json.at("state"),
                static_cast<SwitchRecord::SwitchPhase>(word - words.begin()), json.at("decision_dir")};
    } catch (const Json::exception&) {
        throw failure("{}: is damaged: an entry is missing or has another type", file.string());
    }
}

std::optional<SwitchRecord> read_record(const std::filesystem::path& file) {
    if (!path_is_file(file)) return std::nullopt;
    return parse_record(read_file(file), file);
}

}  // namespace tpx::formats
