// SPDX-License-Identifier: Apache-2.0
#include "formats/state/extra_state.hpp"

#include "lib/core/box.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>

namespace tpx::formats {
namespace {

constexpr std::string_view layers_word = ".layers.";

/// The number at the start of `text`, which is removed; -1 if there is none.
int take_layer_number(std::string_view& text) {
    int number = -1;
    const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
    if (error != std::errc{} || number < 0) return -1;
    text.remove_prefix(static_cast<std::size_t>(end - text.data()));
    return number;
}

}  // namespace

std::string extra_state_of_model(std::string_view stored, int first_layer) {
    const std::size_t at = stored.find(layers_word);
    if (at == stored.npos || stored.starts_with("mtp.")) return std::string{stored};
    const std::string_view before = stored.substr(0, at + layers_word.size());
    std::string_view rest = stored.substr(before.size());
    const int layer = take_layer_number(rest);
    return layer < 0 ? std::string{stored} : fmt::format("{}{}{}", before, first_layer + layer, rest);
}

std::string extra_state_of_object(std::string_view stored) {
    constexpr std::string_view shard = "/shard_";
    const std::size_t slash = stored.find(shard), at = stored.find(layers_word);
    if (slash == stored.npos) return std::string{stored};
    const std::string_view name = stored.substr(0, slash);
    std::string_view rest = stored.substr(slash + shard.size());
    const int number = take_layer_number(rest);
    if (number < 0 || !rest.starts_with('_')) return std::string{stored};  // of an expert
    const bool stacked = at != stored.npos && !name.starts_with("mtp.") &&
                         (name[at + layers_word.size()] < '0' || name[at + layers_word.size()] > '9');
    if (!stacked) return number == 0 ? std::string{name} : std::string{stored};
    const std::size_t end = at + layers_word.size();
    return fmt::format("{}{}.{}", name.substr(0, end), number, name.substr(end));
}

bool is_empty_extra_state(torch::Value value, const torch::Archive& archive) {
    using torch::Kind;
    constexpr std::size_t nothing_pickled = 1500;  // bytes; torch.save(None) writes about a thousand
    if (const auto tensor = archive.tensor(value)) return volume(tensor->shape) == 0;
    if (value.is(Kind::object)) value = value.as_object().state;  // io.BytesIO, whose state begins with its bytes
    if (value.is(Kind::tuple) && !value.items().empty()) value = value.items()[0];
    if (value.is(Kind::list))
        return std::ranges::all_of(value.items(),
                                   [&](const torch::Value& item) { return is_empty_extra_state(item, archive); });
    if (value.is(Kind::bytes)) return value.as_bytes().size() <= nothing_pickled;
    return value.is_none();
}

}  // namespace tpx::formats
