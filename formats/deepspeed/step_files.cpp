// SPDX-License-Identifier: Apache-2.0
#include "formats/deepspeed/step_files.hpp"

#include "lib/core/error.hpp"
#include "lib/core/path.hpp"

#include <charconv>

namespace tpx::formats::deepspeed {
namespace {

namespace fs = std::filesystem;

/// Parses a text from the front, word by word.
class Scanner {
public:
    explicit Scanner(std::string_view text) : rest_{text} {}

    bool word(std::string_view expected) {
        if (!rest_.starts_with(expected)) return false;
        rest_.remove_prefix(expected.size());
        return true;
    }
    bool number(int& into) {
        const auto [end, error] = std::from_chars(rest_.data(), rest_.data() + rest_.size(), into);
        if (error != std::errc{} || into < 0 || rest_[0] == '-') return false;
        rest_.remove_prefix(static_cast<std::size_t>(end - rest_.data()));
        return true;
    }
    bool done() const { return rest_.empty(); }

private:
    std::string_view rest_;
};

std::optional<FileName> parse_layer(Scanner scan) {
    FileName name{.kind = FileName::Kind::layer};
    if (!scan.word("layer_") || !scan.number(name.layer)) return std::nullopt;
    if (scan.word("_expert_")) {
        name.kind = FileName::Kind::expert;
        if (!scan.number(name.expert) || !scan.word("_mp_rank_") || !scan.number(name.mp)) return std::nullopt;
        return scan.word("_model_states.pt") && scan.done() ? std::optional{name} : std::nullopt;
    }
    if (scan.word("-model_states.pt") && scan.done()) return name;
    if (!scan.word("-model_") || !scan.number(name.mp)) return std::nullopt;
    return scan.word("-model_states.pt") && scan.done() ? std::optional{name} : std::nullopt;
}

std::optional<FileName> parse_rank(Scanner scan) {
    FileName name;
    if (scan.word("expp_rank_")) {
        name.kind = FileName::Kind::expert_optimizer;
        if (!scan.number(name.expert) || !scan.word("_mp_rank_") || !scan.number(name.mp)) return std::nullopt;
        return scan.word("_optim_states.pt") && scan.done() ? std::optional{name} : std::nullopt;
    }
    const bool typed = scan.word("bf16_") || scan.word("fp16_");
    if (scan.word("zero_pp_rank_") && (!scan.number(name.dp) || !scan.word("_"))) return std::nullopt;
    if (!scan.word("mp_rank_") || !scan.number(name.mp)) return std::nullopt;
    if (!typed && scan.word("_model_states.pt") && scan.done()) return name;
    name.kind = FileName::Kind::optimizer;
    return name.dp >= 0 && scan.word("_optim_states.pt") && scan.done() ? std::optional{name} : std::nullopt;
}

template <class Key>
void put(std::map<Key, fs::path>& files, const Key& key, const fs::path& path) {
    const auto [other, added] = files.emplace(key, path);
    if (!added) throw failure("{}: belongs to the same rank as {}", path.string(), other->second.filename().string());
}

}  // namespace

std::optional<FileName> parse_file_name(std::string_view name) {
    return name.starts_with("layer_") ? parse_layer(Scanner{name}) : parse_rank(Scanner{name});
}

StepFiles list_step(const fs::path& folder) {
    StepFiles files;
    for (const std::string& file : list_directory(folder)) {
        const auto name = parse_file_name(file);
        if (!name) continue;
        const fs::path path = folder / file;
        switch (name->kind) {
            case FileName::Kind::model:
                put(files.models, {name->mp, name->dp}, path);
                break;
            case FileName::Kind::optimizer:
                put(files.optimizers, {name->mp, name->dp}, path);
                break;
            case FileName::Kind::layer:
                put(files.layers, {name->layer, name->mp}, path);
                break;
            case FileName::Kind::expert:
                put(files.experts, {{name->layer, name->expert}, name->mp}, path);
                break;
            case FileName::Kind::expert_optimizer:
                throw failure("{}: optimizer state of experts without ZeRO cannot be read", path.string());
        }
    }
    if (files.models.empty()) throw failure("{}: has no mp_rank_NN_model_states.pt", folder.string());
    return files;
}

std::string rank_name(int mp, int dp) { return fmt::format("data rank {} and model-parallel rank {}", dp, mp); }

std::string missing_files_text(std::string_view kind, const NameList& ranks) {
    return ranks.count() == 1 ? fmt::format("the {} file of {}", kind, ranks.are_missing())
                              : ranks.are_missing(fmt::format("{} file", kind));
}

}  // namespace tpx::formats::deepspeed
