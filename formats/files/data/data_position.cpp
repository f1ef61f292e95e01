// SPDX-License-Identifier: Apache-2.0
#include "formats/files/data/data_position.hpp"

#include "formats/files/data/count_samples.hpp"
#include "formats/files/toml_text.hpp"
#include "lib/core/file.hpp"
#include "lib/core/path.hpp"

#include <nlohmann/json.hpp>

#include <algorithm>
#include <array>
#include <limits>

namespace tpx::formats {
namespace {

namespace fs = std::filesystem;

constexpr std::uint64_t longest_data_file = std::uint64_t{64} << 20;
constexpr Index most_batch = std::numeric_limits<int>::max();
constexpr std::array position_keys{"samples",       "files",    "global_batch", "seed",
                                   "virtual_nodes", "consumed", "epoch",        "cursor"};

constexpr std::string_view schema = "tpx.data/1";

bool is_valid(const DataPosition& position) {
    const Index samples = position.order.samples;
    return samples > 0 && samples <= max_samples && position.virtual_nodes > 0 &&
           position.batch >= position.virtual_nodes && position.batch <= most_batch && position.consumed >= 0 &&
           position.consumed <= max_samples && position.consumed % position.batch == 0;
}

/// Reads the TOML file of a data position key by key.
class DataFileReader {
public:
    explicit DataFileReader(const fs::path& path)
        : path_{path}, file_{path.string()}, table_{parse_toml_text(read_file(path, longest_data_file), file_)} {}

    DataPosition position() const {
        check_keys(table_, position_keys);
        DataPosition position{.files = files(),
                              .batch = required(table_, "global_batch", 1, most_batch),
                              .virtual_nodes = static_cast<int>(optional(table_, "virtual_nodes", 0, most_batch))};
        position.order = {samples(position.files), static_cast<std::uint64_t>(required(
                                                       table_, "seed", 0, std::numeric_limits<std::int64_t>::max()))};
        if (position.batch < position.virtual_nodes)
            throw toml_error(*table_.get("virtual_nodes"), file_, "{} virtual nodes cannot share a global batch of {}",
                             position.virtual_nodes, position.batch);
        position.consumed = consumed(position);
        return position;
    }

private:
    template <std::size_t size>
    void check_keys(const toml::table& table, const std::array<const char*, size>& known) const {
        for (const auto& [key, node] : table)
            if (std::ranges::find(known, key.str()) == known.end())
                throw toml_error(node, file_, "unknown key '{}'; valid keys: {}", key.str(), fmt::join(known, ", "));
    }

    Index number(const toml::node& node, std::string_view key, Index least, Index most) const {
        const auto value = node.value_exact<std::int64_t>();
        if (!value || *value < least || *value > most)
            throw toml_error(node, file_, "{}: a whole number from {} to {} was expected", key, least, most);
        return *value;
    }

    Index optional(const toml::table& table, std::string_view key, Index least, Index most, Index otherwise = 0) const {
        const toml::node* node = table.get(key);
        return node == nullptr ? otherwise : number(*node, key, least, most);
    }

    Index required(const toml::table& table, std::string_view key, Index least, Index most) const {
        if (!table.contains(key)) throw usage_error("{}: {} is missing", file_, key);
        return optional(table, key, least, most);
    }

    DataFile file_of(const toml::node& node) const {
        constexpr std::array keys{"path", "samples"};
        const toml::table* table = node.as_table();
        if (table == nullptr) throw toml_error(node, file_, "files: a table with path and samples was expected");
        check_keys(*table, keys);
        const toml::node* path = table->get("path");
        if (path == nullptr) throw toml_error(node, file_, "files: path is missing");
        DataFile file{.path = text_of(*path, file_)};
        if (table->contains("samples")) {
            file.samples = required(*table, "samples", 1, max_samples);
            return file;
        }
        file.samples = in_context([&] { return fmt::format("{}:{}", file_, node.source().begin.line); },
                                  [&] { return count_samples(path_.parent_path() / file.path); });
        if (file.samples == 0) throw toml_error(node, file_, "{}: has no samples", file.path);
        return file;
    }

    std::vector<DataFile> files() const {
        std::vector<DataFile> files;
        const toml::node* list = table_.get("files");
        if (list == nullptr) return files;
        if (!list->is_array()) throw toml_error(*list, file_, "files: a list of tables was expected");
        for (const toml::node& node : *list->as_array()) files.push_back(file_of(node));
        if (files.empty()) throw toml_error(*list, file_, "files: is empty");
        return files;
    }

    Index samples(const std::vector<DataFile>& files) const {
        const bool is_given = table_.contains("samples");
        if (!is_given && files.empty()) throw usage_error("{}: samples is missing, or files", file_);
        if (is_given && !files.empty())
            throw toml_error(*table_.get("samples"), file_,
                             "samples: conflicts with files, which have their own samples; use only one of these");
        if (is_given) return required(table_, "samples", 1, max_samples);
        Index sum = 0;
        for (const DataFile& file : files) {
            sum += file.samples;
            if (sum > max_samples) throw usage_error("{}: files have more than {} samples", file_, max_samples);
        }
        return sum;
    }

    Index consumed(const DataPosition& position) const {
        const Index samples = position.order.samples;
        const toml::node* node = table_.get("consumed");
        if (node != nullptr && (table_.contains("epoch") || table_.contains("cursor")))
            throw toml_error(*node, file_,
                             "consumed: conflicts with epoch and cursor; use either consumed or both of these");
        if (node == nullptr && !(table_.contains("epoch") && table_.contains("cursor")))
            throw usage_error("{}: consumed is missing, or epoch and cursor", file_);
        const Index sum = node != nullptr ? number(*node, "consumed", 0, max_samples)
                                          : required(table_, "epoch", 0, max_samples / samples - 1) * samples +
                                                required(table_, "cursor", 0, samples - 1);
        if (sum % position.batch != 0)
            throw toml_error(node != nullptr ? *node : *table_.get("cursor"), file_,
                             "{} consumed samples are not a multiple of the global batch of {}", sum, position.batch);
        return sum;
    }

    fs::path path_;
    std::string file_;
    toml::table table_;
};

}  // namespace

DataPosition read_data_file(const fs::path& path) { return DataFileReader{path}.position(); }

nlohmann::ordered_json to_json(const DataPosition& position) {
    nlohmann::ordered_json json{{"schema", schema},
                                {"samples", position.order.samples},
                                {"seed", position.order.seed},
                                {"global_batch", position.batch},
                                {"virtual_nodes", position.virtual_nodes},
                                {"consumed", position.consumed},
                                {"epoch", position.consumed / position.order.samples},
                                {"cursor", position.consumed % position.order.samples},
                                {"files", nlohmann::ordered_json::array()}};
    for (const DataFile& file : position.files)
        json["files"].push_back({{"path", file.path}, {"samples", file.samples}});
    return json;
}

DataPosition data_position_of(const nlohmann::ordered_json& json) {
    try {
        DataPosition position{.order = {json.at("samples"), json.at("seed")},
                              .batch = json.at("global_batch"),
                              .virtual_nodes = json.at("virtual_nodes"),
                              .consumed = json.at("consumed")};
        for (const auto& file : json.at("files")) position.files.push_back({file.at("path"), file.at("samples")});
        if (json.at("schema") == schema && is_valid(position)) return position;
    } catch (const nlohmann::json::exception&) {
    }
    throw failure("is not a data position that tpx wrote");
}

std::optional<DataPosition> read_data_position(const fs::path& folder) {
    const fs::path path = folder / data_position_name;
    if (!path_exists(path)) return std::nullopt;
    const auto json = nlohmann::ordered_json::parse(read_file(path, longest_data_file), nullptr, false);
    try {
        return data_position_of(json);
    } catch (const Error& error) {
        throw failure("{}: {}; pass --data", path.string(), error.what());
    }
}

}  // namespace tpx::formats
