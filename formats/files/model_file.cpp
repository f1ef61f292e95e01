// SPDX-License-Identifier: Apache-2.0
#include "formats/files/model_file.hpp"

#include "formats/settings/config_file.hpp"
#include "lib/change/model_check.hpp"
#include "lib/core/error.hpp"
#include "lib/core/file.hpp"
#include "lib/core/nearest.hpp"
#include "lib/core/path.hpp"
#include "lib/core/units.hpp"
#include "lib/layout/dims.hpp"

#include <algorithm>
#include <charconv>
#include <filesystem>

namespace tpx::formats {
namespace {

struct Description {
    std::string name;
    std::string file;  // for messages
    Config config;
};

Description find_description(const std::string& wanted) {
    const auto known = std::ranges::find(builtin_models(), wanted, &BuiltinModel::name);
    if (known != builtin_models().end())
        return {wanted, fmt::format("model '{}'", wanted), parse_config_toml(known->toml)};
    std::filesystem::path file = wanted;
    if (path_is_directory(file)) {
        file /= "config.json";
        if (!path_exists(file)) throw Error{Exit::usage, "{}: the folder contains no config.json", wanted};
    }
    if (!path_exists(file)) {
        const std::vector<std::string> names = builtin_model_names();
        throw Error{Exit::usage, "no such file or built-in model '{}'; use a config.json, a TOML file, {}{}", wanted,
                    one_of(names), did_you_mean(wanted, names)};
    }
    const bool named_by_directory = file.filename() == "config.json" && file.has_parent_path();
    const std::filesystem::path name =
        named_by_directory ? std::filesystem::absolute(file).parent_path().filename() : file.stem();
    return {name.string(), file.string(), read_config_file(file)};
}

bool has_key(const Config& config, std::string_view key) { return config.contains(key); }

const Family& find_family(const Families& families, const Config& config) {
    if (const auto type = config.find("model_type"); type != config.end()) {
        const auto* name = std::get_if<std::string>(&type->second);
        const auto number = name ? families.of_type(*name) : std::nullopt;
        if (number) return families[*number];
        throw Error{Exit::usage, "no family of rules has models of model_type '{}'; give one with --rules",
                    name ? *name : "?"};
    }
    if (!has_key(config, "num_layers"))
        throw Error{Exit::usage, "neither model_type, as in a config.json, nor num_layers, as in Megatron's arguments"};
    for (std::size_t number = 0; number < families.size(); ++number) {
        const auto& conditions = families.head(number).detect;
        const auto detect = conditions.find("mcore");
        const auto is = [&](const std::string& condition) { return holds(config, condition); };
        if (detect != conditions.end() && std::ranges::all_of(detect->second, is)) return families[number];
    }
    throw Error{Exit::usage, "no family of rules has such models of Megatron; give one with --rules"};
}

DType type_of_weights(const Config& config) {
    for (const char* key : {"dtype", "torch_dtype", "params_dtype"}) {
        const auto found = config.find(key);
        const auto* text = found == config.end() ? nullptr : std::get_if<std::string>(&found->second);
        if (!text) continue;
        if (const auto dtype = dtype_by_torch(*text); dtype && itemsize(*dtype) > 0) return *dtype;
    }
    return DType::bf16;
}

/// The value of `virtual_node_state` in bytes, which may be a number or a size such as "64KiB"; 0 if it is not set.
Index virtual_node_bytes(const Config& config) {
    const auto found = config.find("virtual_node_state");
    if (found == config.end()) return 0;
    return in_context([] { return std::string{"virtual_node_state"}; },
                      [&] {
                          if (const auto* bytes = std::get_if<std::int64_t>(&found->second); bytes && *bytes >= 0)
                              return *bytes;
                          if (const auto* text = std::get_if<std::string>(&found->second))
                              return static_cast<Index>(parse_bytes(*text));
                          throw usage_error("not a size; write bytes, or a size such as \"64KiB\"");
                      });
}

/// Removes a whole number from the front of `text` and returns it.
std::optional<int> take_number(std::string_view& text) {
    int number = 0;
    const auto [end, code] = std::from_chars(text.data(), text.data() + text.size(), number);
    if (code != std::errc{}) return std::nullopt;
    text.remove_prefix(static_cast<std::size_t>(end - text.data()));
    return number;
}

bool take(std::string_view& text, char c) {
    if (!text.starts_with(c)) return false;
    text.remove_prefix(1);
    return true;
}

}  // namespace

std::string expand_list(std::string_view text) {
    constexpr std::size_t longest = 1 << 20;  // of the text
    const std::string as_it_is{text};
    std::string plain;
    std::ranges::copy_if(text, std::back_inserter(plain), [](char c) { return c != ' ' && c != '(' && c != ')'; });
    std::string_view rest = plain;
    std::string list;
    do {
        std::string items;
        if (!take(rest, '[')) return as_it_is;
        do {
            const auto item = take_number(rest);
            if (!item) return as_it_is;
            items += fmt::format(",{}", *item);
        } while (take(rest, ','));
        if (!take(rest, ']')) return as_it_is;
        const auto times = take(rest, '*') ? take_number(rest) : std::optional{1};
        if (!times || *times < 0 || items.size() * *times > longest - list.size()) return as_it_is;
        for (int i = 0; i < *times; ++i) list += items;
    } while (take(rest, '+'));
    return rest.empty() && !list.empty() ? list.substr(1) : as_it_is;
}

std::vector<std::string> builtin_model_names() {
    std::vector<std::string> names;
    for (const BuiltinModel& model : builtin_models()) names.emplace_back(model.name);
    return names;
}

ModelDescription read_model_description(const std::string& name_or_path, const Families& families,
                                        const Config& settings, std::string_view roles) {
    Description description = find_description(name_or_path);
    Config& config = description.config;
    for (const auto& [key, value] : settings) config[key] = value;
    for (auto& [key, value] : config) {
        if (auto* text = std::get_if<std::string>(&value)) *text = expand_list(*text);
    }
    const std::vector<StateRole> kept = parse_roles(roles, type_of_weights(config));
    return in_context([&] { return description.file; },
                      [&] {
                          const std::string_view source = has_key(config, "model_type") ? "hf" : "mcore";
                          const Family& family = find_family(families, config);
                          ModelState model = model_of(family, source, config, kept);
                          model.name = description.name;
                          model.virtual_node_bytes = virtual_node_bytes(config);
                          check_model(model);
                          return ModelDescription{std::move(model), &family, source, config};
                      });
}

ModelState read_model(const std::string& name_or_path, const Families& families, const Config& settings,
                      std::string_view roles) {
    return read_model_description(name_or_path, families, settings, roles).model;
}

}  // namespace tpx::formats
