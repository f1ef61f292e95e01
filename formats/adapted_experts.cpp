// SPDX-License-Identifier: Apache-2.0
#include "formats/adapted_experts.hpp"

#include "lib/core/error.hpp"

#include <fmt/ranges.h>

#include <algorithm>
#include <map>
#include <string>
#include <string_view>
#include <tuple>
#include <utility>

namespace tpx::formats {
namespace {

class ExpertFinder {
public:
    ExpertFinder(const Adapter& adapter, const Source& source)
        : adapter_{adapter}, source_{source}, tensors_{source.checkpoint.catalogue.tensors} {
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
        const std::vector<std::string> names = parameters_of(adapter_.settings, weight.module());
        std::vector<std::vector<AdaptedWeight>> fitting;
        for (const std::string& name : names) {
            std::vector<AdaptedWeight> found = in_one_tensor(weight, name);
            if (found.empty()) found = in_single_tensors(weight, name);
            if (!found.empty()) fitting.push_back(std::move(found));
        }
        if (fitting.size() != 1)
            throw failure("tensor '{}': is for another base: {} experts of shape [{}, {}, {}] in {}, of '{}'{}",
                          adapter_.tensor(*weight.a).name, fitting.empty() ? "there are no" : "several parameters are",
                          weight.experts, rows(weight), columns(weight),
                          source_.checkpoint.catalogue.directory.string(), fmt::join(names, "' or '"),
                          adapter_.settings.base.empty()
                              ? ""
                              : fmt::format("; the adapter was trained on '{}'", adapter_.settings.base));
        out.insert(out.end(), fitting[0].begin(), fitting[0].end());
    }

private:
    Index rows(const AdaptedWeight& weight) const { return adapter_.tensor(*weight.b).shape[0]; }
    Index columns(const AdaptedWeight& weight) const { return adapter_.tensor(*weight.a).shape[1]; }

    /// All experts in the base's tensor `name`, if it has their shape.
    std::vector<AdaptedWeight> in_one_tensor(const AdaptedWeight& weight, const std::string& name) const {
        const auto found = numbers_.find(name);
        if (found == numbers_.end()) return {};
        const Shape& shape = tensors_[found->second].shape;
        AdaptedWeight made = weight;
        made.name = name;
        made.transposed = shape == Shape{weight.experts, columns(weight), rows(weight)};
        const bool straight = shape == Shape{weight.experts, rows(weight), columns(weight)};
        if (made.transposed && straight)
            throw failure("tensor '{}': experts of shape {} are square, so it is unknown whether they are transposed",
                          adapter_.tensor(*weight.a).name, to_string(shape));
        return made.transposed || straight ? std::vector{made} : std::vector<AdaptedWeight>{};
    }

    /// Each expert in tensors of its own, one below the other, as far as the family's rules have the name `name` for
    /// their stack.
    std::vector<AdaptedWeight> in_single_tensors(const AdaptedWeight& weight, const std::string& name) const {
        if (source_.reading.dialect == nullptr) return {};
        for (const Rule& rule : source_.reading.dialect->rules) {
            const auto indices = rule.name.match(name);
            if (!indices) continue;
            std::vector<AdaptedWeight> found;
            for (Index expert = 0; expert < weight.experts; ++expert) {
                if (!add_expert(weight, rule, indices->layer.value_or(-1), expert, found)) return {};
            }
            return found;
        }
        return {};
    }

    /// Adds the tensors of one expert. Returns false if the base lacks them or they have other shapes.
    bool add_expert(const AdaptedWeight& weight, const Rule& rule, int layer, Index expert,
                    std::vector<AdaptedWeight>& found) const {
        Index row = 0;
        for (const std::string& part : rule.expression.parts) {
            const auto single = singles_.find({part, layer, static_cast<int>(expert)});
            if (single == singles_.end()) return false;
            const Tensor& tensor = tensors_[single->second];
            if (tensor.shape.size() != 2 || tensor.shape[1] != columns(weight)) return false;
            AdaptedWeight made = weight;
            made.name = tensor.name;
            made.expert = expert;
            made.first_row = row;
            row += tensor.shape[0];
            found.push_back(std::move(made));
        }
        return row == rows(weight);
    }

    const Adapter& adapter_;
    const Source& source_;
    const std::vector<Tensor>& tensors_;
    std::map<std::string, std::uint32_t, std::less<>> numbers_;
    std::map<std::tuple<std::string, int, int>, std::uint32_t> singles_;  // part, layer, expert
};

}  // namespace

std::vector<AdaptedWeight> with_experts_as_stored(const Adapter& adapter, const Source& source) {
    if (std::ranges::none_of(adapter.weights, &AdaptedWeight::stacked)) return adapter.weights;
    const ExpertFinder finder{adapter, source};
    std::vector<AdaptedWeight> weights;
    for (const AdaptedWeight& weight : adapter.weights) {
        if (weight.stacked())
            finder.add(weight, weights);
        else
            weights.push_back(weight);
    }
    return weights;
}

}  // namespace tpx::formats
