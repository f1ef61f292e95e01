// SPDX-License-Identifier: Apache-2.0
#include "lib/layout/suggest_rule.hpp"

#include "lib/layout/beyond_rules.hpp"
#include "lib/layout/name_parts.hpp"

#include <fmt/ranges.h>

#include <algorithm>
#include <functional>
#include <string_view>
#include <vector>

namespace tpx {
namespace {

/// Replaces numbers by indices and adds their letters to `letters`: a number after "experts" is an expert, the first
/// other one a layer.
void place_indices(std::vector<std::string>& words, std::string& letters) {
    for (std::size_t at = 0; at < words.size(); ++at) {
        if (!is_number(words[at])) continue;
        const char letter = at > 0 && words[at - 1].find("expert") != std::string::npos ? 'e' : 'l';
        if (letters.find(letter) != std::string::npos) continue;
        words[at] = fmt::format("{{{}}}", letter);
        letters += letter;
    }
}

/// Inserts {l?} after "layers" in a name of Megatron; it matches names in rank files, which number the layers, and in
/// other formats, which stack them. Returns whether the tensor is stacked: then its first axis is that of layers.
bool match_stacked_layers(std::vector<std::string>& words, std::string& letters) {
    const auto layers = std::ranges::find(words, "layers");
    if (layers == words.begin() || layers == words.end() || layers + 1 == words.end()) return false;
    if (const std::string& stack = *(layers - 1); stack != "decoder" && stack != "encoder") return false;
    const bool is_stacked = !is_number(*(layers + 1));
    letters += 'l';
    if (is_stacked)
        words.insert(layers + 1, "{l?}");
    else
        *(layers + 1) = "{l?}";
    return is_stacked;
}

/// A canonical name for the tensor: "sink" for "...self_attn.sink.weight", "sink_bias" for its bias.
std::string canonical_name(const Family& family, const std::vector<std::string>& words) {
    std::vector<std::string> plain;
    for (const std::string& word : words) {
        if (!word.starts_with('{') && word != "weight") plain.push_back(word);
    }
    std::string name = plain.empty() ? "extra" : plain.back();
    if (name == "bias" && plain.size() > 1) name = plain[plain.size() - 2] + "_bias";
    while (family.tensors.contains(name)) name += "_2";
    return name;
}

/// The factor of this size that is not in `used`, the most common factors first; '?' if there is none.
char factor_of(const Dims& dims, Index size, const std::string& used) {
    std::string order = "hfvnxegd";
    for (const auto& [letter, known] : dims.known()) order += letter;
    for (char letter : order) {
        if (letter != 'l' && used.find(letter) == std::string::npos && dims[letter] == size) return letter;
    }
    return '?';
}

}  // namespace

std::string suggest_rule(const Family& family, const Dialect& dialect, const Dims& dims, const Tensor& tensor) {
    std::vector<std::string> words = name_parts(tensor.name);
    std::string indices;
    const bool is_stacked = dialect.name == "mcore" && match_stacked_layers(words, indices);
    place_indices(words, indices);
    const std::string name = canonical_name(family, words);
    std::vector<std::string> axes;
    std::string used = indices;
    for (char letter : indices) axes.emplace_back(1, letter);
    std::ranges::sort(axes, std::greater{});  // l leads
    for (int axis = is_stacked ? 1 : 0; axis < tensor.shape.size(); ++axis) {
        const char letter = factor_of(dims, tensor.shape[axis], used);
        axes.emplace_back(1, letter);
        used += letter == '?' ? '\0' : letter;
    }
    const bool expert = used.find('e') != std::string::npos && tensor.name.find("expert") != std::string::npos;
    return fmt::format(
        "family = \"{0}\"; extends = [\"{0}\"]; tensors.{1} = \"{2} ; {3}opt\"; dialects.{4}.rules = "
        "[[\"{5}\", \"{1}\"]]",
        family.name, name, fmt::join(axes, " "), expert ? "ep=e " : "", dialect.name, fmt::join(words, "."));
}

std::string missing_rule_message(const Family& family, const Dialect& dialect, const Dims& dims, const Tensor& tensor) {
    if (const std::string_view why = why_beyond_rules(tensor.name); !why.empty()) return fmt::format("it {}", why);
    return fmt::format(
        "no rule of family '{}' matches this tensor; pass --rules FILE with a rule such as (add tp= if it is sharded): "
        "{}",
        family.name, suggest_rule(family, dialect, dims, tensor));
}

}  // namespace tpx
