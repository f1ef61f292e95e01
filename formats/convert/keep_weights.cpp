// SPDX-License-Identifier: Apache-2.0
#include "formats/convert/keep_weights.hpp"

#include "formats/encodings/torch/keep_alive.hpp"
#include "formats/encodings/torch/value.hpp"
#include "formats/encodings/torch/without_keys.hpp"
#include "formats/settings/model_config.hpp"
#include "formats/state/common_optimizers.hpp"
#include "formats/state/roles.hpp"
#include "lib/core/error.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <string_view>
#include <unordered_map>
#include <utility>

namespace tpx::formats {
namespace {

/// A tensor that is kept: the number of the stored tensor, and the new name.
struct Kept {
    std::uint32_t stored = 0;
    std::string name;
};

/// Whether training scripts store optimizers under this key: "optim", "optimizer_states", "disc_optimizer".
bool keeps_optimizer(std::string_view key) {
    for (const std::string_view word : {"optim", "optims", "optimizer", "optimizers"})
        if (key == word || key.starts_with(fmt::format("{}_", word)) || key.ends_with(fmt::format("_{}", word)))
            return true;
    return false;
}

/// Whether a name belongs to optimizer state, by any of its parts: "optim_g.state.0.step",
/// "chained_0.optimizer.distributed...", "model.weight.exp_avg".
bool of_optimizer(std::string_view name) {
    constexpr std::array words{"exp_avg", "exp_avg_sq", "max_exp_avg_sq", "momentum_buffer", "square_avg", "acc_delta"};
    while (true) {
        const std::size_t end = std::min(name.find_first_of("./"), name.size());
        if (keeps_optimizer(name.substr(0, end))) return true;
        if (end == name.size()) return std::ranges::find(words, name) != words.end();
        name.remove_prefix(end + 1);
    }
}

/// The role of tensor `t`, as the checkpoint records it or else from its name.
Role role(const Source& source, std::uint32_t t) {
    if (!source.checkpoint.roles.empty() || source.reading.meanings[t].kind == Meaning::Kind::parameter)
        return role_of(source, t);
    return of_optimizer(source.checkpoint.catalogue.tensors[t].name) ? Role::state : Role::weight;
}

/// The name of a weight, or of the weight of a master.
std::string weight_of(const Source& source, std::uint32_t t) {
    const std::string_view name = source.checkpoint.catalogue.tensors[t].name;
    if (!source.checkpoint.roles.empty()) return std::string{parameter_of(source.checkpoint, t)};
    if (role(source, t) != Role::master) return std::string{name};
    for (const RolePattern& pattern : source.reading.dialect->roles) {
        const auto star = wildcard_match(pattern.pattern, name);
        if (star && pattern.role == Role::master) return std::string{*star};
    }
    throw Error{Exit::usage, "--masters: tensor '{}': its weight is unknown", name};
}

/// Drops other optimizer state: objects, and an entry of Megatron's common state.
void drop_objects(Checkpoint& checkpoint) {
    std::erase_if(checkpoint.catalogue.objects, [](const Object& object) { return of_optimizer(object.name); });
    if (!checkpoint.common || !checkpoint.common->find("optimizer")) return;
    torch::Document document;
    checkpoint.common = keep_copy_alive(torch::without_keys(document, *checkpoint.common, {"optimizer"}));
}

class Selection {
public:
    Selection(const Source& source, bool masters) : source_{source} {
        const auto& tensors = source.checkpoint.catalogue.tensors;
        for (std::uint32_t t = 0; t < tensors.size(); ++t) {
            if (role(source, t) == Role::weight) weights_.emplace(weight_of(source, t), t);
            if (role(source, t) == Role::master && (masters || !source.checkpoint.roles.empty()))
                masters_.emplace(weight_of(source, t), t);
        }
        for (std::uint32_t t = 0; t < tensors.size(); ++t) {
            if (role(source, t) == Role::master && source.checkpoint.roles.empty()) continue;
            if (role(source, t) != Role::weight && role(source, t) != Role::master) continue;
            const std::string name = weight_of(source, t);
            if (role(source, t) == Role::weight)
                kept_.push_back({masters ? master_of(name).value_or(t) : t, name});
            else if (!weights_.contains(name))
                kept_.push_back({t, name});
        }
        for (const auto& [name, stored] : source.checkpoint.shared) {
            const auto master = masters_.find(stored);
            if (!weights_.contains(name) && master != masters_.end()) kept_.push_back({master->second, name});
        }
    }

    /// Replaces the tensors and pieces of `source` with the kept ones. Shared tensors may appear several times.
    void apply(Source& source) const {
        Reading reading = source.reading;
        reading.meanings.clear();
        reading.unknown.clear();
        std::vector<Tensor> tensors;
        for (const auto& [stored, name] : kept_) {
            reading.meanings.push_back(source.reading.meanings[stored]);
            reading.meanings.back().role = Role::weight;
            if (reading.meanings.back().kind == Meaning::Kind::unknown)
                reading.unknown.push_back(static_cast<std::uint32_t>(tensors.size()));
            tensors.push_back(source.checkpoint.catalogue.tensors[stored]);
            tensors.back().name = name;
        }
        keep_pieces(source.checkpoint);
        source.checkpoint.catalogue.tensors = std::move(tensors);
        if (!source.checkpoint.roles.empty()) source.checkpoint.roles.assign(kept_.size(), Role::weight);
        source.checkpoint.parameters.clear();
        source.reading = std::move(reading);
    }

private:
    /// Replaces the pieces of the stored tensors, and what the checkpoint records for each, with those of the kept
    /// ones.
    void keep_pieces(Checkpoint& checkpoint) const {
        std::vector<std::pair<std::size_t, std::size_t>> runs(checkpoint.catalogue.tensors.size());
        for (std::size_t p = 0; p < checkpoint.catalogue.pieces.size(); ++p) {
            auto& [begin, end] = runs[checkpoint.catalogue.pieces[p].tensor];
            if (end == 0) begin = p;
            end = p + 1;
        }
        Checkpoint kept;
        for (std::size_t number = 0; number < kept_.size(); ++number) {
            const auto [begin, end] = runs[kept_[number].stored];
            for (std::size_t p = begin; p < end; ++p) {
                kept.catalogue.pieces.push_back(checkpoint.catalogue.pieces[p]);
                kept.catalogue.pieces.back().tensor = static_cast<std::uint32_t>(number);
                if (!checkpoint.archives.empty()) kept.archives.push_back(checkpoint.archives[p]);
                if (!checkpoint.archive_slices.empty()) kept.archive_slices.push_back(checkpoint.archive_slices[p]);
                if (!checkpoint.crcs.empty()) kept.crcs.push_back(checkpoint.crcs[p]);
            }
        }
        checkpoint.catalogue.pieces = std::move(kept.catalogue.pieces);
        checkpoint.archives = std::move(kept.archives);
        checkpoint.archive_slices = std::move(kept.archive_slices);
        checkpoint.crcs = std::move(kept.crcs);
    }

    std::optional<std::uint32_t> master_of(const std::string& name) const {
        const auto alias = source_.checkpoint.shared.find(name);
        const auto found = masters_.find(alias == source_.checkpoint.shared.end() ? name : alias->second);
        return found == masters_.end() ? std::nullopt : std::optional{found->second};
    }

    const Source& source_;
    std::unordered_map<std::string, std::uint32_t> weights_;
    std::unordered_map<std::string, std::uint32_t> masters_;  // by parameter
    std::vector<Kept> kept_;
};

}  // namespace

DroppedState keep_weights(Source& source, bool masters) {
    DroppedState dropped;
    const std::size_t all = source.checkpoint.catalogue.tensors.size();
    for (std::uint32_t t = 0; t < all; ++t)
        if (role(source, t) == Role::extra) dropped.others.push_back(source.checkpoint.catalogue.tensors[t].name);
    const auto was = most_common_dtype(source.reading, source.checkpoint.catalogue.tensors);
    Selection{source, masters}.apply(source);
    const auto is = most_common_dtype(source.reading, source.checkpoint.catalogue.tensors);
    if (was != is && is && !source.checkpoint.config_json.empty())
        source.checkpoint.config_json = with_dtype(source.checkpoint.config_json, *is);
    drop_objects(source.checkpoint);
    dropped.files = std::exchange(source.checkpoint.training_files, {});
    const std::size_t left = source.checkpoint.catalogue.tensors.size() + dropped.others.size();
    dropped.states = all - std::min(all, left);
    return dropped;
}

}  // namespace tpx::formats
