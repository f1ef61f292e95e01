// SPDX-License-Identifier: Apache-2.0
#include "lib/layout/express.hpp"

#include "lib/core/counted.hpp"
#include "lib/core/error.hpp"
#include "lib/layout/layer_sizes.hpp"
#include "lib/layout/layer_ties.hpp"
#include "lib/layout/occurrences.hpp"
#include "lib/layout/parts.hpp"
#include "lib/layout/remainders.hpp"
#include "lib/layout/size_text.hpp"
#include "lib/layout/states.hpp"
#include "lib/layout/stored_name.hpp"
#include "lib/layout/suggest_rule.hpp"

#include <algorithm>
#include <set>

namespace tpx {
namespace {

/// The size that `letter` is padded to in the dialect of `reading`; nothing if the configuration lacks the divisor.
std::optional<Index> padded_size(const Reading& reading, const Config& config, int tp, char letter, Index size) {
    const auto dialect = reading.family->pad.find(reading.dialect->name);
    if (dialect == reading.family->pad.end() || !dialect->second.contains(letter)) return size;
    const auto multiple = reading.dims.evaluate(dialect->second.at(letter), config, {{"tp", std::int64_t{tp}}});
    if (!multiple || *multiple <= 0) return std::nullopt;
    return (size + *multiple - 1) / *multiple * *multiple;
}

/// The shape to store. `stored` is the current shape, or null: a padded axis keeps its size if the padding is unknown
/// and `tp` divides it.
Shape shape_of(const Reading& reading, const Dims& sizes, const Meaning& meaning, const Config& config, int tp,
               Index stacked, const Shape* stored) {
    Shape shape;
    for (const FactoredAxis& axis : factored_shape(*reading.family, meaning, sizes, stacked)) {
        const char letter = axis.places.empty() ? '\0' : axis.places[0].letter;
        std::optional<Index> size = axis.size;
        if (axis.padded) size = padded_size(reading, config, tp, letter, axis.size);
        if (!size && stored && (*stored)[shape.size()] % tp == 0) size = (*stored)[shape.size()];
        if (!size)
            throw failure("the padded size of {} is unknown; pass --set make_vocab_size_divisible_by=N",
                          size_text(reading, std::string_view{&letter, 1}));
        shape.push_back(*size);
    }
    return shape;
}

/// Makes stored tensors from canonical ones: weights, or the optimizer state that `pattern` names.
class Writer {
public:
    Writer(ExpressedState& out, const Occurrences& have, const RolePattern* pattern, const Config& config, int tp,
           const std::set<std::string>& tags, int layers)
        : out_{out}, have_{have}, pattern_{pattern}, config_{config}, tp_{tp}, tags_{tags}, layers_{layers} {
        stacks_ = tags.contains("dist") && std::ranges::all_of(have, [&](const auto& entry) {
                      std::set<int> in;
                      for (Place place : entry.second.places) in.insert(place.layer);
                      std::erase_if(in, [&](int layer) { return layer < 0 || layer >= layers; });
                      const auto& sizes = entry.second.sizes;
                      const bool alike = std::ranges::all_of(
                          sizes, [&](const auto& own) { return own.second.known() == sizes.begin()->second.known(); });
                      return alike && (in.empty() || static_cast<int>(in.size()) == layers);
                  });
    }

    /// Adds the stored tensors that `rule` makes from pieces that no earlier rule took.
    void apply(const Rule& rule) {
        const auto first = have_.find(rule.expression.parts[0]);
        if (first == have_.end() || rule.alias()) return;
        std::map<Place, std::set<Place>> groups;  // by the indices in the name
        for (Place place : first->second.places) {
            if (done_[first->first].contains(place) || !chosen(rule, place)) continue;
            if (!numbers_in(rule.name, indices_of(place), out_.reading.dims)) continue;
            Place named = place;
            if (stacks_ && rule.name.optional('l') && place.layer < layers_) named.layer = -1;
            if (!rule.name.has('e')) named.expert = -1;
            groups[named].insert(place);
        }
        for (const auto& [named, places] : groups) add(rule, first->second, named, places);
    }

    /// Throws Error if no rule took a piece of the source.
    void require_all(std::string_view dialect) {
        for (const auto& [part, occurrence] : have_) {
            for (Place place : occurrence.places) {
                if (!done_[part].contains(place))
                    throw failure("tensor '{}': {} names have no place for it ('{}'{})", occurrence.stored, dialect,
                                  part, place.layer < 0 ? "" : fmt::format(" of layer {}", place.layer));
            }
        }
    }

private:
    bool holds(std::string_view tag, Place place) const {
        const auto part = have_.find(tag);
        return tag == "tied" || tags_.contains(std::string{tag}) ||
               (part != have_.end() && part->second.places.contains(place));
    }

    /// Whether one of the rule's tags holds, "a+b" if both do.
    bool chosen(const Rule& rule, Place place) const {
        return rule.tags.empty() || std::ranges::any_of(rule.tags, [&](std::string_view tag) {
                   const std::size_t plus = tag.find('+');
                   return holds(tag.substr(0, plus), place) &&
                          (plus == std::string_view::npos || holds(tag.substr(plus + 1), place));
               });
    }

    void add(const Rule& rule, const Occurrence& first, Place named, const std::set<Place>& places) {
        const Role role = pattern_ ? pattern_->role : Role::weight;
        const Meaning meaning{Meaning::Kind::parameter, &rule, role, indices_of(named)};
        const NameIndices numbers = numbers_in(rule.name, meaning.indices, out_.reading.dims).value();
        std::string name = rule.name.name(numbers, out_.reading.prefixed);
        if (pattern_) name = std::string{pattern_->pattern}.replace(pattern_->pattern.find('*'), 1, name);
        in_context([&] { return fmt::format("tensor '{}'", name); },
                   [&] {
                       require_parts(rule, first, named, places);
                       const auto own = first.sizes.find(*places.begin());
                       const Dims& sizes = own == first.sizes.end() ? out_.reading.dims : own->second;
                       out_.tensors.push_back(
                           {name, first.dtype, shape_of(out_.reading, sizes, meaning, config_, tp_, layers_, nullptr)});
                   });
        out_.reading.meanings.push_back(meaning);
        for (const std::string& part : rule.expression.parts) done_[part].insert(places.begin(), places.end());
    }

    void require_parts(const Rule& rule, const Occurrence& first, Place named, const std::set<Place>& places) const {
        for (const std::string& part : rule.expression.parts) {
            const auto found = have_.find(part);
            // Not std::ranges::includes(), which scans the experts of all layers.
            const auto is_there = [&](const Place& place) { return found->second.places.contains(place); };
            if (found == have_.end() || !std::ranges::all_of(places, is_there))
                throw failure("its part '{}' is missing from the source", part);
            if (found->second.dtype != first.dtype)
                throw failure("its parts have different dtypes ({} and {})", tpx::name(first.dtype),
                              tpx::name(found->second.dtype));
        }
        const bool of_experts = places.begin()->expert >= 0 && named.expert < 0;
        const Index experts = of_experts ? out_.reading.dims['e'].value_or(0) : 1;
        const Index layers = named.layer < 0 && places.begin()->layer >= 0 ? layers_ : 1;
        require_count(static_cast<Index>(places.size()), of_experts ? "expert" : "layer", experts, layers);
    }

    /// Throws Error unless `stored` is the number of layers, or of experts of layers, that belong together.
    static void require_count(Index stored, std::string_view noun, Index experts, Index layers) {
        const Index all = experts * layers;
        const std::string each =
            experts > 1 && layers > 1 ? fmt::format(" ({} in each of {} layers)", experts, layers) : "";
        const char* verb = stored == 1 ? "is" : "are";
        if (stored < all) throw failure("{} of {} {} stored{}", stored, counted(all, noun), verb, each);
        if (stored > all)
            throw failure("{} {} stored, but the configuration has {}{}", counted(stored, noun), verb, all, each);
    }

    ExpressedState& out_;
    const Occurrences& have_;
    const RolePattern* pattern_;  // null: weights
    const Config& config_;
    int tp_;
    const std::set<std::string>& tags_;
    int layers_;
    bool stacks_ = false;
    std::map<std::string, std::set<Place>, std::less<>> done_;
};

/// The tensor that may be tied to another, if the family has one.
const CanonicalTensor* tied_tensor(const Family& family) {
    const auto found =
        std::ranges::find_if(family.tensors, [](const auto& t) { return !t.second.tie.empty() && !t.second.has('l'); });
    return found == family.tensors.end() ? nullptr : &found->second;
}

/// Whether the model has no output layer by design: its names lack their prefix, or it classifies text.
bool headless(const Reading& source, const Occurrences& have) {
    const auto prefixed = [](const Rule& rule) { return rule.name.has_prefix(); };
    const bool bare = source.dialect->bare || std::ranges::none_of(source.dialect->rules, prefixed);
    return (!bare && !source.prefixed) || have.contains("score");
}

/// Adds the tied output layer if the dialect writes it, or removes it if the dialect does not.
void settle_tie(const Reading& source, const Dialect& dialect, Occurrences& have, ExpressedState& out) {
    const CanonicalTensor* head = tied_tensor(*source.family);
    if (!head) return;
    const bool lacking = !have.contains(head->name);
    const bool by_make = headless(source, have);
    if (lacking && by_make && source.dialect->name != dialect.name)
        throw failure(
            "the model has no output layer, which {} names must have; --dialect keep leaves the names as they are",
            dialect.name);
    if (lacking && !source.tied && !source.config.empty() && !by_make)
        throw failure("tensor '{}' is missing, and the configuration does not say that it is tied to '{}'",
                      stored_name(source, head->name, {}), stored_name(source, head->tie, {}));
    const bool written = std::ranges::any_of(
        dialect.rules, [&](const Rule& rule) { return rule.expression.parts[0] == head->name && rule.tagged("tied"); });
    if (lacking && written && have.contains(head->tie)) {
        out.aliases[head->name] = head->tie;
        have[head->name] = have[head->tie];
    } else if (!lacking && source.tied && !written) {
        out.dropped_names.push_back(have[head->name].stored);
        have.erase(head->name);
    }
}

/// Removes the optimizer state of a tied output layer that is not written.
void drop_tied(const Family& family, States& states) {
    const CanonicalTensor* head = tied_tensor(family);
    if (!head || states[Role::weight].contains(head->name)) return;
    for (auto& [role, occurrences] : states) occurrences.erase(head->name);
}

/// An empty result for the family of `source` in `dialect`.
ExpressedState unwritten(const Reading& source, const Dialect& dialect) {
    ExpressedState out;
    out.reading = source;
    out.reading.dialect = &dialect;
    out.reading.prefixed = !dialect.bare;
    out.reading.meanings.clear();
    out.reading.unknown.clear();
    return out;
}

/// Adds the stored tensors of all `states` to `out`.
void write_states(const States& states, int layer_count, const Config& config, int tp,
                  const std::set<std::string>& tags, ExpressedState& out) {
    const Dialect& dialect = *out.reading.dialect;
    for (const Role role : state_roles) {
        const auto have = states.find(role);
        if (have == states.end() || have->second.empty()) continue;
        const RolePattern* pattern = role == Role::weight ? nullptr : &pattern_of(dialect, role, tags);
        Writer writer{out, have->second, pattern, config, tp, tags, layer_count};
        for (const Rule& rule : dialect.rules) writer.apply(rule);
        writer.require_all(dialect.name);
    }
}

}  // namespace

ExpressedState express(const Reading& source, std::span<const Tensor> tensors, const Dialect& dialect,
                       const Config& config, int tp, const std::set<std::string>& tags) {
    if (!source.unknown.empty()) {
        const Tensor& tensor = tensors[source.unknown[0]];
        throw failure("tensor '{}': {}", tensor.name,
                      missing_rule_message(*source.family, *source.dialect, source.dims, tensor));
    }
    if (const std::string remainder = remainder_in_sizes(source); !remainder.empty())
        throw failure("the configuration contradicts itself: {}", remainder);
    if (!source.complete)
        throw failure("sizes are unknown: {}; pass the model's config.json with --config", missing_sizes(source));
    ExpressedState out = unwritten(source, dialect);
    States states = states_of(source, tensors, dialect, out.dropped_names);
    resolve_masters(*source.family, dialect, tags.contains("masters"), states, out);
    Occurrences& weights = states[Role::weight];
    require_layers(source, weights);
    settle_tie(source, dialect, weights, out);
    drop_tied(*source.family, states);
    resolve_layer_ties(source, dialect, states, out);
    write_states(states, layers(source, tensors), config, tp, tags, out);
    return out;
}

ExpressedState express_model(const Reading& source, const ModelState& model, int tp,
                             const std::set<std::string>& tags) {
    ExpressedState out = unwritten(source, *source.dialect);
    States states = states_of(model, *source.family);
    add_layer_sizes(source, states);
    settle_tie(source, *source.dialect, states[Role::weight], out);
    drop_tied(*source.family, states);
    write_states(states, model.layers, source.config, tp, tags, out);
    return out;
}

ExpressedState repad(const Reading& source, std::span<const Tensor> tensors, const Config& config, int tp) {
    ExpressedState out{.reading = source, .tensors = {tensors.begin(), tensors.end()}};
    if (!source.family || !source.complete) return out;
    for (std::size_t t = 0; t < tensors.size(); ++t) {
        const Meaning& meaning = source.meanings[t];
        if (meaning.kind != Meaning::Kind::parameter || meaning.role == Role::step) continue;
        const bool varies = has_varying_size(*source.family, meaning);
        if (varies && has_size_of_shape(source, meaning)) continue;  // only known sizes are padded
        if (!fits_shape(source, tensors[t], meaning)) {              // no rule says how to split it
            if (tp == 1) continue;
            throw failure("tensor '{}': shape {}, but the configuration asks for {}; it can be kept with tp=1 only",
                          tensors[t].name, to_string(tensors[t].shape),
                          to_string(expected_shape(source, tensors[t], meaning)));
        }
        const bool stacked = is_axis(*source.family, meaning, 'l');
        const Dims sizes = varies ? sizes_in(source, tensors[t], meaning) : source.dims;
        in_context([&] { return fmt::format("tensor '{}'", tensors[t].name); },
                   [&] {
                       out.tensors[t].shape = shape_of(source, sizes, meaning, config, tp,
                                                       stacked ? tensors[t].shape[0] : 0, &tensors[t].shape);
                   });
    }
    return out;
}

}  // namespace tpx
