// SPDX-License-Identifier: Apache-2.0
#include "cmd/reading.hpp"

#include "formats/config_file.hpp"
#include "formats/hdf5/hdf5.hpp"
#include "formats/rules/rules.hpp"
#include "lib/core/error.hpp"
#include "lib/core/file.hpp"

namespace tpx::cli {

Config given_config(const ReadOptions& options) {
    const bool has_scalars = !options.config.empty() && !formats::is_keras_model(options.config);
    Config config = has_scalars ? formats::read_config_file(options.config) : Config{};
    for (const std::string& setting : options.settings) formats::add_setting(config, setting);
    return config;
}

Opened open_checkpoint(const std::filesystem::path& path, const ReadOptions& options, Config config) {
    for (const auto& [key, value] : given_config(options)) config[key] = value;
    const std::vector<std::filesystem::path> files{options.rules.begin(), options.rules.end()};
    auto families = std::make_shared<const std::vector<Family>>(formats::load_families(files));
    formats::Source source = formats::open_source(path, *families, config);
    if (!options.config.empty()) formats::add_keras_model(options.config, source.checkpoint);
    return {std::move(families), std::move(source)};
}

Layout given_layout(const std::string& text) {
    constexpr std::uint64_t largest_layout_file = 1 << 20;
    if (!text.ends_with(".toml")) return parse_layout(text);
    return parse_layout_toml(read_file(text, largest_layout_file), text);
}

formats::Target given_target(const TargetOptions& options, const ReadOptions& reading, const formats::Source& source) {
    formats::Target target{
        .layout = given_layout(options.to), .format = source.checkpoint.format, .dialect = options.dialect};
    if (!options.format.empty()) target.format = formats::format_by_name(options.format).value();
    target.config = given_config(reading);
    return target;
}

nlohmann::ordered_json to_json(const Layout& layout) {
    return {{"text", to_string(layout)},
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
            {"first", layout.first ? nlohmann::ordered_json(*layout.first) : nullptr},
            {"last", layout.last ? nlohmann::ordered_json(*layout.last) : nullptr}};
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
