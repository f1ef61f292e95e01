// SPDX-License-Identifier: Apache-2.0
#include "lib/layout/draft_family.hpp"

#include "lib/layout/dims.hpp"
#include "lib/layout/draft_sizes.hpp"
#include "lib/layout/name_kinds.hpp"

#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <cctype>
#include <set>

namespace tpx {
namespace {

/// How tensor parallelism splits a linear layer, by the name that frameworks give the layer.
enum class Cut : std::uint8_t {
    none,
    rows,     ///< outputs are split: the first axis of a weight, and the bias
    columns,  ///< inputs are split: the last axis of a weight
    fused     ///< gate and up in one tensor, one after the other, each split by rows
};

template <std::size_t N>
bool is_one_of(const std::array<std::string_view, N>& words, std::string_view word) {
    return std::ranges::find(words, word) != words.end();
}

Cut cut_of(std::string_view module) {
    constexpr std::array<std::string_view, 24> rows{
        "q_proj", "k_proj", "v_proj", "gate_proj", "up_proj", "w1",       "w3",        "fc1",
        "fc_in",  "c_fc",   "wq",     "wk",        "wv",      "q_b_proj", "kv_b_proj", "dense_h_to_4h",
        "query",  "key",    "value",  "linear_q",  "lin1",    "wi",       "wi_0",      "wi_1"};
    constexpr std::array<std::string_view, 12> columns{"o_proj", "out_proj", "down_proj", "w2",
                                                       "fc2",    "fc_out",   "c_proj",    "dense_4h_to_h",
                                                       "dense",  "wo",       "lin2",      "linear_out"};
    constexpr std::array<std::string_view, 4> fused{"gate_up_proj", "up_gate_proj", "gate_and_up_proj", "gate_up"};
    if (is_one_of(rows, module)) return Cut::rows;
    if (is_one_of(columns, module)) return Cut::columns;
    return is_one_of(fused, module) ? Cut::fused : Cut::none;
}

/// `text` as a TOML string.
std::string toml_string(std::string_view text) {
    std::string result = "\"";
    for (const char c : text) {
        if (c == '"' || c == '\\') result += '\\';
        if (static_cast<unsigned char>(c) < 0x20)
            result += fmt::format("\\u{:04x}", static_cast<unsigned>(c));
        else
            result += c;
    }
    return result + "\"";
}

void add_once(std::vector<std::string>& list, std::string text) {
    if (std::ranges::find(list, text) == list.end()) list.push_back(std::move(text));
}

void add_list(std::string_view key, const std::vector<std::string>& texts, std::string& toml) {
    if (texts.empty()) return;
    toml += fmt::format("{} = [", key);
    for (const std::string& text : texts)
        toml += fmt::format("{}{}", &text == &texts[0] ? "" : ", ", toml_string(text));
    toml += "]\n";
}

/// An identifier for a kind: "self_attn_q_proj", "mlp_experts_down_proj_bias".
std::string word_for(const NameKind& kind, const std::set<std::string>& used) {
    std::string_view rest = kind.text;
    if (!kind.layer.empty()) rest.remove_prefix(kind.layer.size() + 1);
    std::string word;
    for (std::size_t at = 0; at < rest.size(); ++at) {
        const bool plain = std::isalnum(static_cast<unsigned char>(rest[at])) != 0 || rest[at] == '_';
        if (rest.substr(at).starts_with("{e}."))
            at += 3;
        else
            word += plain ? rest[at] : '_';
    }
    constexpr std::string_view leaf = "_weight";
    if (word.ends_with(leaf) && word.size() > leaf.size()) word.resize(word.size() - leaf.size());
    while (used.contains(word)) word += "_2";
    return word;
}

/// Writes the tensors and rules of a family, kind by kind.
class Drafter {
public:
    Drafter(const Config& config, bool cut) : sizes_{config}, cut_{cut} {}

    void add(const NameKind& kind) {
        if (kind.text.ends_with("inv_freq")) return add_once(extra_, "*inv_freq");
        if (!kind.same_shapes) {
            std::string glob = kind.text;
            for (const std::string_view index : {"{l}", "{e}"})
                if (const auto at = glob.find(index); at != glob.npos)
                    glob = glob.substr(0, at) + "*" + glob.substr(at + index.size());
            whole_.push_back(glob);
            notes_.push_back(
                fmt::format("shapes of '{}' differ between layers; these tensors are replicated", kind.text));
            return;
        }
        const std::string word = word_for(kind, used_);
        const Cut cut = cut_ ? cut_of(kind.module()) : Cut::none;
        if (cut == Cut::fused && add_fused(kind, word)) return;
        add_tensor(word, kind, axes_of(kind, kind.shape, cut));
        add_rule(kind, word);
    }

    FamilyDraft draft(const std::string& name, const Config& config, const std::vector<std::string>& towers) {
        FamilyDraft made;
        for (const std::string& glob : towers) {
            whole_.push_back(glob);
            notes_.push_back(fmt::format("'{}': a second stack of layers, which is replicated", glob));
        }
        const auto type = config.find("model_type");
        made.toml = fmt::format("family = \"{}\"\n", name);
        if (type != config.end()) made.toml += fmt::format("detect.hf = [{}]\n", toml_string(value_text(type->second)));
        made.toml += fmt::format("\n[dims]\n{}", sizes_.toml());
        if (holds(config, "tie_word_embeddings")) made.toml += "\n[tied]\nhf = \"tie_word_embeddings\"\n";
        made.toml += fmt::format("\n[tensors]\n{}\n[dialects.hf]\n", tensors_);
        if (!layer_.empty()) made.toml += fmt::format("layer = {}\n", toml_string(layer_));
        add_list("whole", whole_, made.toml);
        add_list("extra", extra_, made.toml);
        made.toml += fmt::format("rules = [\n{}]\n", rules_);
        made.notes = std::move(notes_);
        return made;
    }

private:
    struct Axes {
        std::vector<std::string> texts;
        char tp = 0;
    };

    /// The axes of a tensor of `shape`, and the factor that tensor parallelism splits.
    Axes axes_of(const NameKind& kind, const Shape& shape, Cut cut) {
        Axes axes;
        std::string used = kind.expert ? "e" : "";
        const bool matrix = shape.size() >= 2;
        const bool vocabulary = cut_ && matrix && sizes_.is('v', shape[0]);
        for (int k = 0; k < shape.size(); ++k) {
            const bool leads = k == shape.size() - (matrix ? 2 : 1);
            const bool is_cut = (cut == Cut::rows && leads) || (cut == Cut::columns && matrix && k + 1 == shape.size());
            const std::string text =
                is_cut ? sizes_.cut_axis(shape[k], kind.module(), used) : sizes_.axis(shape[k], k, used);
            if (is_cut || (vocabulary && k == 0)) axes.tp = text[text[0] == '(' ? 1 : 0];
            axes.texts.push_back(text);
        }
        return axes;
    }

    /// Declares the tensor `word`, stored as `kind`.
    void add_tensor(const std::string& word, const NameKind& kind, const Axes& axes) {
        std::vector<std::string> texts = axes.texts;
        // Expert parallelism also splits experts that are stored in one tensor.
        const bool stacked = !kind.expert && !texts.empty() && texts[0] == "e" && kind.shape.size() >= 2 &&
                             kind.text.find("experts") != std::string::npos;
        if (kind.expert) texts.insert(texts.begin(), "e");
        if (!kind.layer.empty()) texts.insert(texts.begin(), "l");
        std::string words;
        if (kind.expert || stacked) words += " ep=e";
        if (axes.tp != 0) words += fmt::format(" tp={}", axes.tp);
        if (kind.layer.empty())
            words += kind.text.find("emb") != std::string::npos || kind.text.find("wte") != std::string::npos ||
                             kind.text.find("wpe") != std::string::npos
                         ? " first"
                         : " last";
        if (!is_real(kind.dtype)) words += " buffer";
        if (!kind.in_all_layers) words += " opt";
        tensors_ += fmt::format("{} = \"{}{}{}\"\n", word, fmt::join(texts, " "), words.empty() ? "" : " ;", words);
        used_.insert(word);
    }

    void add_rule(const NameKind& kind, const std::string& expression) {
        std::string name = kind.text;
        if (!kind.layer.empty()) {
            layer_ = kind.layer;
            name = name.substr(kind.layer.size());
        }
        rules_ += fmt::format("  [{}, \"{}\"],\n", toml_string(name), expression);
    }

    /// Two tensors that are stored one after the other along an axis of twice the size of the feed-forward layer.
    bool add_fused(const NameKind& kind, const std::string& word) {
        for (int k = 0; k < kind.shape.size(); ++k) {
            const char half = kind.shape[k] % 2 == 0 ? sizes_.feed_forward(kind.shape[k] / 2) : 0;
            if (half == 0) continue;
            Shape shape = kind.shape;
            shape[k] /= 2;
            Axes axes = axes_of(kind, shape, Cut::none);
            if (axes.texts[k] != std::string(1, half)) continue;
            axes.tp = half;
            for (const char* part : {"gate", "up"}) add_tensor(fmt::format("{}_{}", word, part), kind, axes);
            axes.texts[k] = "(+)";
            add_rule(kind, fmt::format("{0}_gate {0}_up -> {1}", word, fmt::join(axes.texts, " ")));
            notes_.push_back(fmt::format("'{}': the first half is taken for the gate, the second for up", kind.text));
            return true;
        }
        return false;
    }

    DraftSizes sizes_;
    bool cut_;
    std::set<std::string> used_;
    std::vector<std::string> extra_;
    std::vector<std::string> whole_;
    std::vector<std::string> notes_;
    std::string tensors_;
    std::string rules_;
    std::string layer_;
};

}  // namespace

FamilyDraft draft_family(const std::string& name, std::span<const Tensor> tensors, const Config& config, bool cut) {
    std::vector<std::string> towers;
    const std::vector<NameKind> kinds = name_kinds(tensors, towers);
    Drafter drafter{config, cut};
    for (const NameKind& kind : kinds) drafter.add(kind);
    return drafter.draft(name, config, towers);
}

}  // namespace tpx
