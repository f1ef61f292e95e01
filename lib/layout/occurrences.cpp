// SPDX-License-Identifier: Apache-2.0
#include "lib/layout/occurrences.hpp"

#include "lib/core/counted.hpp"
#include "lib/core/error.hpp"
#include "lib/core/interval.hpp"
#include "lib/layout/parts.hpp"
#include "lib/layout/size_text.hpp"
#include "lib/layout/stored_name.hpp"

#include <algorithm>
#include <optional>

namespace tpx {
namespace {

/// Calls `each(place)` for each layer and expert of a canonical tensor that the stored tensor contains.
template <class Each>
void for_each_place(const Reading& reading, const Tensor& tensor, const Meaning& meaning, const CanonicalTensor& part,
                    Each&& each) {
    const auto span = [&](char index, const std::optional<int>& number, Index size) {
        if (is_axis(*reading.family, meaning, index)) return Interval{0, size};
        const int at = part.has(index) && part.is_index(index) ? number.value_or(-1) : -1;
        return Interval{at, at + 1};
    };
    const Interval layers = span('l', meaning.indices.layer, tensor.shape.empty() ? 0 : tensor.shape[0]);
    const Interval experts = span('e', meaning.indices.expert, reading.dims['e'].value_or(0));
    for (Index l = layers.begin; l < layers.end; ++l) {
        for (Index e = experts.begin; e < experts.end; ++e) each(Place{static_cast<int>(l), static_cast<int>(e)});
    }
}

}  // namespace

Occurrences occurrences_of(const Reading& source, std::span<const Tensor> tensors, Role role) {
    Occurrences found;
    for (std::size_t t = 0; t < tensors.size(); ++t) {
        const Meaning& meaning = source.meanings[t];
        if (meaning.kind != Meaning::Kind::parameter || meaning.role != role) continue;
        for (const std::string& part : meaning.rule->expression.parts) {
            Occurrence& occurrence = found[part];
            occurrence.dtype = tensors[t].dtype;
            if (occurrence.stored.empty()) occurrence.stored = tensors[t].name;
            const bool varies = has_varying_size(*source.family, meaning);
            for_each_place(source, tensors[t], meaning, source.family->tensor(part), [&](Place place) {
                occurrence.places.insert(place);
                if (varies) occurrence.sizes.emplace(place, sizes_in(source, tensors[t], meaning));
            });
        }
    }
    return found;
}

void require_layers(const Reading& source, const Occurrences& have) {
    int count = 0;
    for (const auto& [name, occurrence] : have) {
        for (Place place : occurrence.places) count = std::max(count, place.layer + 1);
    }
    const int experts = static_cast<int>(source.dims['e'].value_or(0));
    for (const auto& [name, tensor] : source.family->tensors) {
        const auto found = have.find(name);
        if (found == have.end() || !tensor.has('l')) continue;
        const std::set<Place>& places = found->second.places;
        for (int l = 0; l < count; ++l) {
            const auto first = places.lower_bound({l, -1});
            const bool here = first != places.end() && first->layer == l;
            if (!here && !tensor.optional)
                throw failure("layer {} lacks tensor '{}'", l, stored_name(source, name, {.layer = l, .expert = {}}));
            for (int e = 0; here && tensor.ep != 0 && e < experts; ++e) {
                if (!places.contains({l, e}))
                    throw failure("expert {} of layer {} lacks tensor '{}'; the configuration has {} ({})", e, l,
                                  stored_name(source, name, {.layer = l, .expert = e}),
                                  counted(static_cast<std::uint64_t>(experts), "expert"), size_text(source, "e"));
            }
        }
    }
}

}  // namespace tpx
