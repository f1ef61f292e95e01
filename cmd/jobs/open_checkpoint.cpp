// SPDX-License-Identifier: Apache-2.0
#include "cmd/jobs/open_checkpoint.hpp"

#include "cmd/cli/cli.hpp"
#include "cmd/jobs/keeper_client.hpp"
#include "formats/hdf5/hdf5.hpp"
#include "formats/open_source.hpp"
#include "formats/rules/rules.hpp"
#include "formats/settings/config_file.hpp"
#include "formats/settings/known_settings.hpp"
#include "lib/core/error.hpp"
#include "lib/core/file.hpp"
#include "lib/core/nearest.hpp"
#include "lib/core/path.hpp"
#include "lib/core/unexpected.hpp"

namespace tpx::cli {

Config config_from_options(const ReadOptions& options) {
    const bool has_scalars = !options.config.empty() && !formats::is_keras_model(options.config);
    Config config = has_scalars ? formats::read_config_file(options.config) : Config{};
    if (has_scalars && !options.config.ends_with(".toml") && formats::names_model(config))
        config[formats::config_json_key] = read_file(options.config, formats::max_config_bytes);
    for (const std::string& setting : options.settings) formats::add_setting(config, setting);
    return config;
}

void check_settings(const ReadOptions& options, const Families& families, const Config& config) {
    const std::set<std::string> known = formats::known_settings(families, config);
    for (const std::string& setting : options.settings) {
        const std::string key = setting.substr(0, setting.find('='));
        if (!known.contains(key))
            throw Error{Exit::usage, "--set {}: unknown key '{}' (not used by tpx, a model family or the checkpoint){}",
                        setting, key, did_you_mean(key, {known.begin(), known.end()})};
        Config own;
        formats::add_setting(own, setting);
        const std::string_view kind = formats::kind_of_number(key, families);
        if (!formats::is_number(own.at(key), kind))
            throw Error{Exit::usage, "--set {}: must be {}, not '{}'", setting, kind, setting.substr(key.size() + 1)};
    }
}

namespace {

/// The configuration of a model in a checkpoint, a plan and --config.
Config own_settings(const ReadOptions& options, const formats::Checkpoint& checkpoint, Config config) {
    config.insert(checkpoint.config.begin(), checkpoint.config.end());
    if (!checkpoint.config_json.empty()) config.merge(formats::parse_config_json(checkpoint.config_json));
    ReadOptions file;
    file.config = options.config;
    config.merge(config_from_options(file));
    return config;
}

}  // namespace

OpenedCheckpoint open_checkpoint(const std::filesystem::path& given, const ReadOptions& options, Config config) {
    const std::filesystem::path path = resolve_held_path(given);
    const Config report = config;
    for (const auto& [key, value] : config_from_options(options)) config[key] = value;
    const std::vector<std::filesystem::path> files{options.rules.begin(), options.rules.end()};
    const Families families = formats::load_families(files);
    const auto missing = options.allows_missing_files ? formats::MissingFiles::allowed : formats::MissingFiles::refused;
    formats::Source source = reading(path, [&] { return formats::open_source(path, families, config, missing); });
    if (!options.settings.empty()) check_settings(options, families, own_settings(options, source.checkpoint, report));
    if (!options.config.empty()) formats::add_keras_model(options.config, source.checkpoint);
    return {std::move(source)};
}

std::string path_without_links(const std::filesystem::path& given) {
    const std::filesystem::path path = resolve_held_path(given);
    if (!path_exists(path)) return path.string();
    const bool folder = path_is_directory(path);
    const auto real =
        folder ? real_path(path) : real_path(std::filesystem::absolute(path).parent_path()) / path.filename();
    auto plain = std::filesystem::absolute(path).lexically_normal();
    if (!plain.has_filename()) plain = plain.parent_path();
    return real == plain ? path.string() : real.string();
}

std::string name_of_file(const std::filesystem::path& path) {
    return path_is_directory(path) ? "" : path.filename().string();
}

Layout layout_from_text_or_file(const std::string& text) {
    constexpr std::uint64_t largest_layout_file = 1 << 20;
    if (!text.ends_with(".toml")) return parse_layout(text);
    return parse_layout_toml(read_file(text, largest_layout_file), text);
}

formats::Target target_from_options(const TargetOptions& options, const ReadOptions& reading,
                                    const formats::Source& source) {
    formats::Target target{
        .layout = layout_from_text_or_file(options.to), .format = source.checkpoint.format, .dialect = options.dialect};
    if (!options.format.empty()) target.format = formats::format_by_name(options.format).value();
    target.config = config_from_options(reading);
    return target;
}

nlohmann::ordered_json to_json(const Layout& layout) {
    nlohmann::ordered_json json{{"text", to_string(layout)},
                                {"ranks", layout.ranks()},
                                {"tp", layout.tp},
                                {"pp", layout.pp},
                                {"dp", layout.dp},
                                {"cp", layout.cp},
                                {"ep", layout.ep},
                                {"etp", layout.etp > 0 ? layout.etp : layout.tp},
                                {"vpp", layout.vpp},
                                {"fsdp", layout.fsdp},
                                {"hsdp", layout.hsdp()},
                                {"fsdp_dim", layout.fsdp_dim},
                                {"efsdp", layout.efsdp},
                                {"zero", layout.zero},
                                {"vn", layout.vn},
                                {"stages", layout.stages},
                                {"order", layout.order},
                                {"first", layout.first ? nlohmann::ordered_json(*layout.first) : nullptr},
                                {"last", layout.last ? nlohmann::ordered_json(*layout.last) : nullptr}};
    if (!layout.vn_parts.empty()) json["vn_parts"] = layout.vn_parts;
    return json;
}

nlohmann::ordered_json to_json(const Shape& shape) {
    auto list = nlohmann::ordered_json::array();
    for (Index size : shape) list.push_back(size);
    return list;
}

nlohmann::ordered_json to_json(const Box& box) {
    auto list = nlohmann::ordered_json::array();
    for (Interval side : box) list.push_back({side.begin, side.end});
    return list;
}

}  // namespace tpx::cli
