// SPDX-License-Identifier: Apache-2.0
#include "lib/layout/draft_sizes.hpp"

#include "lib/layout/dims.hpp"

#include <fmt/format.h>

namespace tpx {

DraftSizes::DraftSizes(const Config& config) : config_{config} {
    for (const char* nested : {"text_config.", "llm_config.", "language_config."})
        if (integer(config, std::string{nested} + "hidden_size")) nested_ = nested;
    define('h', {"hidden_size", "n_embd", "d_model", "dim"});
    define('v', {"vocab_size", "padded_vocab_size"});
    define('n', {"num_attention_heads", "n_head", "n_heads", "num_heads"});
    define('g', {"num_key_value_heads", "num_kv_heads", "n_kv_heads"});
    define('d', {"head_dim", "kv_channels", "attention_head_dim"});
    define('f', {"intermediate_size", "ffn_dim", "n_inner", "ffn_hidden_size", "d_ff", "intermediate_dim"});
    define('x', {"moe_intermediate_size", "expert_intermediate_size", "moe_ffn_hidden_size"});
    define('s', {"shared_expert_intermediate_size", "moe_shared_expert_intermediate_size", "shared_intermediate_size"});
    define('e', {"num_experts", "num_local_experts", "n_routed_experts", "moe_num_experts"});
    if (!factors_.contains('g') && factors_.contains('n')) factors_['g'] = {factors_['n'].size, "any n"};
    if (!factors_.contains('d') && factors_.contains('n') && factors_.contains('h'))
        factors_['d'] = {factors_['h'].size / factors_['n'].size, "any h / n"};
    if (factors_.contains('n')) factors_['m'] = {factors_['n'].size / factors_['g'].size, "any n / g"};
}

void DraftSizes::define(char letter, std::initializer_list<const char*> keys) {
    for (const char* key : keys)
        if (const auto size = integer(config_, nested_ + key); size && *size > 0) {
            factors_[letter] = {*size, fmt::format("hf {}{}", nested_, key)};
            return;
        }
}

bool DraftSizes::is(char letter, Index size) const {
    const auto found = factors_.find(letter);
    return found != factors_.end() && found->second.size == size;
}

char DraftSizes::feed_forward(Index size) const {
    for (const char letter : {'x', 'f', 's'})
        if (is(letter, size)) return letter;
    return 0;
}

std::string DraftSizes::use(std::string letters, std::string& used) {
    for (const char letter : letters) {
        used += letter;
        if (asked_.find(letter) == asked_.npos) asked_ += letter;
    }
    if (letters.size() == 1) return letters;
    std::string text = "(";
    for (const char letter : letters) text += fmt::format("{}{}", letter, letter == letters.back() ? ")" : " ");
    return text;
}

/// An additional factor, for a size that the configuration does not contain.
char DraftSizes::spare(Index size, const std::string& used) {
    constexpr std::string_view letters = "abcijkopqrtuwyzABCDEFGHIJKMNOPQRSTUVWXYZ";
    for (const char letter : letters)
        if (is(letter, size) && used.find(letter) == used.npos) return letter;
    for (const char letter : letters)
        if (!factors_.contains(letter)) {
            factors_[letter] = {size, ""};
            return letter;
        }
    return 'Z';
}

std::string DraftSizes::axis(Index size, int number, std::string& used) {
    const std::string order = number == 0 ? "evhxfsdng" : "hxfsdvnge";
    for (const char letter : order)
        if (is(letter, size) && used.find(letter) == used.npos) return use(std::string(1, letter), used);
    return use(std::string(1, spare(size, used)), used);
}

std::string DraftSizes::cut_axis(Index size, std::string_view module, std::string& used) {
    const auto size_of = [&](char letter) { return factors_.contains(letter) ? factors_[letter].size : 0; };
    const bool keys = module.starts_with('k') || module.starts_with('v') || module == "wk" || module == "wv";
    const bool mlp = feed_forward(size) != 0 && module.find_first_of("qkv") == module.npos && module != "o_proj";
    const Index heads = size_of('n');
    if (!mlp && heads > 0 && heads % size_of('g') == 0 && size == heads * size_of('d') && (!keys || size_of('m') == 1))
        return use("gmd", used);
    if (!mlp && heads > 0 && keys && size == size_of('g') * size_of('d')) return use("gd", used);
    if (const char letter = feed_forward(size); letter != 0 && used.find(letter) == used.npos)
        return use(std::string(1, letter), used);
    const bool attention = module.find_first_of("qkv") != module.npos || module.starts_with('o');
    if (attention && heads > 0 && size % heads == 0) {
        used += 'n';
        const char each = spare(size / heads, used);
        used.pop_back();
        return use(std::string{'n', each}, used);
    }
    return axis(size, 1, used);
}

std::string DraftSizes::toml() const {
    std::string lines;
    std::string needed = asked_;
    for (const char letter : std::string{"gnh"}) {  // factors that the formulas of others contain
        const bool mentioned = needed.find('m') != needed.npos || needed.find('d') != needed.npos ||
                               (letter == 'n' && needed.find('g') != needed.npos);
        if (mentioned && factors_.contains(letter) && needed.find(letter) == needed.npos) needed += letter;
    }
    for (const char letter : needed) {
        if (letter == 'l') continue;
        const std::string& formula = factors_.at(letter).formula;
        const std::size_t space = formula.find(' ');
        lines += formula.empty() ? fmt::format("{} = {{ any = \"\" }} # {} here\n", letter, factors_.at(letter).size)
                                 : fmt::format("{} = {{ {} = \"{}\" }}\n", letter, formula.substr(0, space),
                                               formula.substr(space + 1));
    }
    return lines;
}

}  // namespace tpx
