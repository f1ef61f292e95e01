// SPDX-License-Identifier: Apache-2.0
#include "formats/state/common_state.hpp"

#include "formats/settings/model_config.hpp"
#include "lib/core/error.hpp"

#include <string>
#include <type_traits>
#include <vector>

namespace tpx::formats {
namespace {

using torch::Document;
using torch::Kind;
using torch::Value;

/// A list of whole numbers as text, "0,1,1".
std::optional<ConfigValue> list_text(Value list) {
    std::string text;
    for (const Value& item : list.items()) {
        if (!item.is(Kind::integer)) return std::nullopt;
        text += fmt::format("{}{}", text.empty() ? "" : ",", item.as_int());
    }
    return text;
}

std::optional<ConfigValue> scalar(Value value) {
    switch (value.kind()) {
        case Kind::none:
            return nullptr;
        case Kind::boolean:
            return value.as_bool();
        case Kind::integer:
            return value.as_int();
        case Kind::real:
            return value.as_real();
        case Kind::string:
            return std::string{value.as_string()};
        case Kind::list:
        case Kind::tuple:
            return list_text(value);
        case Kind::object: {  // a PipelineParallelLayerLayout keeps the text from which it was made
            const auto text = value.attribute("input_data");
            return text && text->is(Kind::string) ? std::optional<ConfigValue>{std::string{text->as_string()}}
                                                  : std::nullopt;
        }
        default:
            return std::nullopt;
    }
}

/// The value that `text` represents: "[0,1]" is a list of whole numbers, "(0,1)" a tuple, all other text a string.
Value text_value(Document& document, const std::string& text) {
    const bool tuple = text.starts_with('(') && text.ends_with(')');
    if (text.size() < 2 || !(tuple || (text.starts_with('[') && text.ends_with(']')))) return document.string(text);
    const auto numbers = whole_numbers(ConfigValue{text.substr(1, text.size() - 2)});
    if (!numbers) return document.string(text);
    std::vector<Value> items;
    for (std::int64_t number : *numbers) items.push_back(document.integer(number));
    return tuple ? document.tuple(items) : document.list(items);
}

Value value_of(Document& document, const ConfigValue& value) {
    return std::visit(
        [&](const auto& held) {
            using Held = std::decay_t<decltype(held)>;
            if constexpr (std::is_same_v<Held, std::nullptr_t>)
                return Value{};
            else if constexpr (std::is_same_v<Held, bool>)
                return Value::boolean(held);
            else if constexpr (std::is_same_v<Held, std::int64_t>)
                return document.integer(held);
            else if constexpr (std::is_same_v<Held, double>)
                return document.real(held);
            else
                return text_value(document, held);
        },
        value);
}

Value empty_args(Document& document) {
    const Value args =
        document.object(document.global("argparse", "Namespace"), document.tuple({}), torch::Construction::allocate);
    document.set_state(args, document.dict());
    return args;
}

}  // namespace

Config scalars_of(Value dict) {
    Config config;
    for (const auto& [key, value] : dict.entries()) {
        auto found = scalar(value);
        if (key.is(Kind::string) && found) config[std::string{key.as_string()}] = std::move(*found);
    }
    return config;
}

Config args_of(Value state) {
    const auto args = state.find("args");
    if (!args) return {};
    const Value attributes = args->is(Kind::object) ? args->as_object().state : *args;
    return attributes.is(Kind::dict) ? scalars_of(attributes) : Config{};
}

std::optional<std::int64_t> iteration_in(Value state) {
    const auto iteration = state.find("iteration");
    return iteration && iteration->is(Kind::integer) ? std::optional{iteration->as_int()} : std::nullopt;
}

Value with_args(Document& document, Value state, const Config& settings, std::int64_t iteration) {
    Value args = state.find("args").value_or(Value{});
    if (args.is_none()) args = empty_args(document);
    const Config present = args_of(state);
    for (const auto& [name, value] : settings) {
        // Unchanged settings keep their types, such as lists and enumerations, which Config holds as text.
        const auto found = present.find(name);
        if (found == present.end() || found->second != value)
            args = document.with_attribute(args, name, value_of(document, value));
    }
    return document.with_key(document.with_key(state, "args", args), "iteration", document.integer(iteration));
}

}  // namespace tpx::formats
