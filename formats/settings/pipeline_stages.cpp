// SPDX-License-Identifier: Apache-2.0
#include "formats/settings/pipeline_stages.hpp"

#include "lib/core/error.hpp"
#include "lib/layout/dims.hpp"

#include <algorithm>
#include <charconv>
#include <optional>

namespace tpx::formats::megatron {
namespace {

constexpr std::size_t longest = 1 << 16;

/// Removes a factor such as "*12" from the front of `text` and returns it; 1 if there is none.
std::size_t take_times(std::string_view& text) {
    if (!text.starts_with('*')) return 1;
    std::size_t times = 0;
    const auto [end, error] = std::from_chars(text.data() + 1, text.data() + text.size(), times);
    if (error != std::errc{} || times > longest) throw failure("pipeline layout: '{:.20}' is not a factor", text);
    text.remove_prefix(static_cast<std::size_t>(end - text.data()));
    return times;
}

/// The text with "(...)*n" and "x*n" written out.
std::string unrolled(std::string_view text) {
    std::string out;
    while (!text.empty()) {
        std::string_view item = text.substr(0, 1);
        if (item == "(") {
            const std::size_t close = text.find(')');
            if (close == text.npos) throw failure("pipeline layout: '{:.20}' has no ')'", text);
            item = text.substr(1, close - 1);
            text.remove_prefix(close + 1);
        } else {
            text.remove_prefix(1);
        }
        const std::string inner = item.find('*') == item.npos ? std::string{item} : unrolled(item);
        for (std::size_t n = take_times(text); n > 0; --n) {
            out += inner;
            if (out.size() > longest) throw failure("pipeline layout: is too long");
        }
    }
    return out;
}

/// The text without commas and spaces, and with factors written out.
std::string plain_text(std::string_view text) {
    std::string plain;
    for (char c : text) {
        if (c != ',' && c != ' ') plain += c;
    }
    return unrolled(plain);
}

/// The pipeline layout text in args; unset if there is none.
std::optional<std::string> words_of(const Config& args) {
    const auto words = args.find("pipeline_model_parallel_layout");
    if (words == args.end() || !std::holds_alternative<std::string>(words->second)) return std::nullopt;
    return std::get<std::string>(words->second);
}

}  // namespace

std::vector<int> parse_stages(std::string_view text) {
    std::vector<int> stages{0};
    for (char c : plain_text(text)) {
        if (c == '|')
            stages.push_back(0);
        else if (c == 't')
            ++stages.back();
        else if (c != 'E' && c != 'L' && c != 'm')
            throw failure("pipeline layout: unknown '{}'; use E, t, m, L and |", c);
    }
    return stages;
}

int chunk_of_prediction(const Config& args, const Layout& layout) {
    const int last = layout.pp * layout.vpp - 1;
    const auto words = words_of(args);
    if (!words) return last;
    const std::string plain = plain_text(*words);
    const auto first = std::ranges::find(plain, 'm');
    if (first == plain.end()) return last;
    return std::min(static_cast<int>(std::count(plain.begin(), first, '|')), last);
}

std::string stages_text(const std::vector<int>& stages, int prediction) {
    std::string text = "E";
    for (std::size_t k = 0; k < stages.size(); ++k) {
        if (k > 0) text += '|';
        text.append(static_cast<std::size_t>(stages[k]), 't');
    }
    text.append(static_cast<std::size_t>(prediction), 'm');
    return text + 'L';
}

void set_stages(const Config& args, int layers, Layout& layout) {
    const int chunks = layout.pp * layout.vpp;
    if (const auto words = words_of(args)) {
        layout.stages = parse_stages(*words);
        if (static_cast<int>(layout.stages.size()) != chunks)
            throw failure("args: the pipeline layout has {} chunks, pp={} and vpp={}", layout.stages.size(), layout.pp,
                          layout.vpp);
        return;
    }
    const auto set = [&](std::string_view key, std::optional<int>& into) {
        if (const auto value = integer(args, key); value && *value >= 0 && *value <= layers)
            into = static_cast<int>(*value);
    };
    if (layout.pp > 1) {
        set("decoder_first_pipeline_num_layers", layout.first);
        set("decoder_last_pipeline_num_layers", layout.last);
    }
    const bool embedding = holds(args, "account_for_embedding_in_pipeline_split");
    const bool loss = holds(args, "account_for_loss_in_pipeline_split");
    if (layout.pp == 1 || layout.first || layout.last || (!embedding && !loss)) return;
    const int all = layers + (embedding ? 1 : 0) + (loss ? 1 : 0);
    if (all % chunks != 0) throw failure("args: {} layers, embedding and loss for {} chunks", all, chunks);
    layout.stages.assign(static_cast<std::size_t>(chunks), all / chunks);
    if (embedding) --layout.stages.front();
    if (loss) --layout.stages.back();
}

}  // namespace tpx::formats::megatron
