// SPDX-License-Identifier: Apache-2.0
#include "formats/adapters/split_stacked_weights.hpp"

#include "formats/adapters/saved_names.hpp"
#include "lib/core/error.hpp"

#include <fmt/ranges.h>

#include <algorithm>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <tuple>
#include <utility>

namespace tpx::formats {
namespace {

class ExpertFinder {
public:
    ExpertFinder(const Adapter& adapter, const Source& source)
        : adapter_{adapter}, source_{source}, tensors_{source.checkpoint.catalogue.tensors}, names_{source} {
        const Reading& reading = source.reading;
        for (std::uint32_t t = 0; t < tensors_.size(); ++t) {
            numbers_.emplace(tensors_[t].name, t);
            const Meaning& meaning = reading.meanings[t];
            if (meaning.kind != Meaning::Kind::parameter || meaning.role != Role::weight || !meaning.indices.expert)
                continue;
            const std::vector<std::string>& parts = meaning.rule->expression.parts;
            if (parts.size() == 1)
                singles_[{parts[0], meaning.indices.layer.value_or(-1), *meaning.indices.expert}] = t;
        }
    }

    /// Adds what `weight` is in the base's tensors to `out`.
    void add(const AdaptedWeight& weight, std::vector<AdaptedWeight>& out) const {
        std::vector<Fit> fits = fits_of(weight);
        if (fits.size() > 1)
            if (const auto transposed = orientation_of(weight.module()))
                std::erase_if(fits, [&](const Fit& fit) { return fit.transposed != *transposed; });
        if (fits.size() != 1)
            in_context([&] { return fmt::format("tensor '{}'", adapter_.tensor(*weight.a).name); },
                       [&] { throw fits.empty() ? no_experts(weight) : several_fit(fits); });
        out.insert(out.end(), fits[0].weights.begin(), fits[0].weights.end());
    }

    /// Gives `weight` the name of the base's tensor.
    void rename(AdaptedWeight& weight) const { weight.name = names_.of(weight.name); }

private:
    /// A parameter that has the shape of an adapter's weight, or the transpose of that.
    struct Fit {
        std::string name;
        bool transposed = false;
        std::vector<AdaptedWeight> weights;  ///< for the base's tensors
    };

    Index rows(const AdaptedWeight& weight) const { return adapter_.tensor(*weight.b).shape[0]; }
    Index columns(const AdaptedWeight& weight) const { return adapter_.tensor(*weight.a).shape[1]; }

    std::vector<Fit> fits_of(const AdaptedWeight& weight) const {
        std::vector<Fit> fits;
        const Index ranks = adapter_.tensor(*weight.a).shape[0];  // of all experts
        for (const std::string& name : parameters_of(adapter_.settings, weight.module())) {
            if (experts_in(ranks, adapter_.settings.rank_of(name)) < 2) continue;
            for (const bool transposed : {false, true}) {
                AdaptedWeight made = weight;
                set_stack(adapter_.settings, name, ranks, made);
                made.transposed = transposed;
                std::vector<AdaptedWeight> found = in_one_tensor(made, names_.of(name));
                if (found.empty()) found = in_single_tensors(made, name);
                if (!found.empty()) fits.push_back({name, transposed, std::move(found)});
            }
        }
        return fits;
    }

    /// Whether the parameters of `module` are transposed, which PEFT decides for all of them alike. Nothing if all that
    /// are adapted fit both ways.
    std::optional<bool> orientation_of(std::string_view module) const {
        const std::vector<std::string> names = parameters_of(adapter_.settings, module);
        for (const AdaptedWeight& other : adapter_.weights) {
            if (!other.stacked() || parameters_of(adapter_.settings, other.module()) != names) continue;
            const std::vector<Fit> fits = fits_of(other);
            const auto is_like_first = [&](const Fit& fit) { return fit.transposed == fits[0].transposed; };
            if (!fits.empty() && std::ranges::all_of(fits, is_like_first)) return fits[0].transposed;
        }
        return std::nullopt;
    }

    Error no_experts(const AdaptedWeight& weight) const {
        return failure("{} has no {} experts of {} x {} named '{}'{}", source_.checkpoint.catalogue.directory.string(),
                       weight.experts, rows(weight), columns(weight),
                       fmt::join(parameters_of(adapter_.settings, weight.module()), "' or '"),
                       adapter_.settings.base.empty()
                           ? ""
                           : fmt::format("; the adapter was trained on '{}'", adapter_.settings.base));
    }

    static Error several_fit(const std::vector<Fit>& fits) {
        std::vector<std::string> names;
        for (const Fit& fit : fits)
            if (names.empty() || names.back() != fit.name) names.push_back(fit.name);
        if (names.size() == 1)
            return failure(
                "experts of '{}' are square, so it is unknown whether they are transposed; merge with PEFT "
                "(merge_and_unload)",
                names[0]);
        return failure("fits '{}' alike, so the adapted parameter is unknown; merge with PEFT (merge_and_unload)",
                       fmt::join(names, "' and '"));
    }

    /// All experts in the base's tensor `name`, if it has their shape.
    std::vector<AdaptedWeight> in_one_tensor(AdaptedWeight weight, const std::string& name) const {
        const auto found = numbers_.find(name);
        if (found == numbers_.end()) return {};
        const Shape one = adapter_.shape_of(weight);
        if (tensors_[found->second].shape != Shape{weight.experts, one[0], one[1]}) return {};
        weight.name = name;
        return {std::move(weight)};
    }

    /// Each expert in tensors of its own, one below the other, as far as the family's rules have the name `name` for
    /// their stack.
    std::vector<AdaptedWeight> in_single_tensors(const AdaptedWeight& weight, const std::string& name) const {
        if (source_.reading.dialect == nullptr) return {};
        for (const Rule& rule : source_.reading.dialect->rules) {
            const auto indices = rule.name.match(name);
            if (!indices) continue;
            const int layer = indices->layer.value_or(-1);
            std::vector<AdaptedWeight> found;
            for (Index expert = 0; expert < weight.experts; ++expert) {
                if (!add_expert(weight, rule, layer, expert, found)) return {};
            }
            const bool has_more =
                singles_.contains({rule.expression.parts[0], layer, static_cast<int>(weight.experts)});
            return has_more ? std::vector<AdaptedWeight>{} : found;
        }
        return {};
    }

    /// Adds the tensors of one expert. Returns false if the base lacks them or they have other shapes.
    bool add_expert(const AdaptedWeight& weight, const Rule& rule, int layer, Index expert,
                    std::vector<AdaptedWeight>& found) const {
        const Shape whole = adapter_.shape_of(weight);
        Index row = 0;
        for (const std::string& part : rule.expression.parts) {
            const auto single = singles_.find({part, layer, static_cast<int>(expert)});
            if (single == singles_.end()) return false;
            const Tensor& tensor = tensors_[single->second];
            if (tensor.shape.size() != 2 || tensor.shape[1] != whole[1]) return false;
            AdaptedWeight made = weight;
            made.name = tensor.name;
            made.expert = expert;
            made.first_row = row;
            row += tensor.shape[0];
            found.push_back(std::move(made));
        }
        return row == whole[0];
    }

    const Adapter& adapter_;
    const Source& source_;
    const std::vector<Tensor>& tensors_;
    SavedNames names_;
    std::map<std::string, std::uint32_t, std::less<>> numbers_;
    std::map<std::tuple<std::string, int, int>, std::uint32_t> singles_;  // part, layer, expert
};

}  // namespace

std::vector<AdaptedWeight> split_stacked_weights(const Adapter& adapter, const Source& source) {
    const ExpertFinder finder{adapter, source};
    std::vector<AdaptedWeight> weights;
    for (const AdaptedWeight& weight : adapter.weights) {
        if (weight.stacked())
            finder.add(weight, weights);
        else
            finder.rename(weights.emplace_back(weight));
    }
    return weights;
}

}  // namespace tpx::formats
