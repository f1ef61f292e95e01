// SPDX-License-Identifier: Apache-2.0
#include "lib/layout/tensor_form.hpp"

#include "lib/core/alternatives.hpp"
#include "lib/core/counted.hpp"
#include "lib/core/error.hpp"
#include "lib/layout/dims.hpp"
#include "lib/layout/parts.hpp"
#include "lib/layout/size_text.hpp"

#include <algorithm>
#include <numeric>
#include <set>

namespace tpx {
namespace {

constexpr Index most_sized_layers = 100'000;

bool leads(const Axis& axis, char letter) { return !axis.empty() && axis[0].letter == letter; }

/// The factors of `part` at a '+', in order.
std::vector<char> at_plus(const CanonicalTensor& part, const std::vector<Axis>& stored) {
    std::vector<char> letters;
    for (const Axis& axis : part.axes) {
        for (Token token : axis) {
            const bool elsewhere = std::ranges::any_of(
                stored, [&](const Axis& a) { return std::ranges::count(a, token.letter, &Token::letter) > 0; });
            if (!elsewhere && !part.is_index(token.letter)) letters.push_back(token.letter);
        }
    }
    return letters;
}

/// The blocks of the parts on an axis of `size` that begins with '+'. Sizes of factors are needed only if the parts
/// differ.
std::vector<Interval> part_blocks(const Reading& reading, const Expression& expression, Index size) {
    std::vector<std::vector<char>> letters;
    const std::size_t block = expression.block > 0 ? expression.block : expression.parts.size();
    for (std::size_t part = 0; part < block; ++part) {
        letters.push_back(at_plus(reading.family->tensor(expression.parts[part]), expression.axes));
        if (!expression.repeats.empty() && expression.repeats[part] != 0)
            letters.back().push_back(expression.repeats[part]);
    }
    const Index count = static_cast<Index>(letters.size());
    const bool alike = std::ranges::all_of(letters, [&](const auto& l) { return l == letters[0]; });
    std::vector<Interval> blocks;
    for (const auto& part : letters) {
        Index length = alike && size % count == 0 ? size / count : 1;
        if (!alike) {
            for (char letter : part) length *= reading.dims[letter].value_or(0);
        }
        const Index begin = blocks.empty() ? 0 : blocks.back().end;
        blocks.push_back({begin, begin + length});
    }
    if (blocks.back().end != size) throw failure("its parts cannot be distinguished on an axis of {}", size);
    return blocks;
}

/// The blocks of an axis of `size` on which known factors precede `factor`: one for each of their values. Empty if
/// there are none.
std::vector<Interval> blocks_before(const Reading& reading, const Axis& axis, char factor, Index size) {
    const auto found = std::ranges::find(axis, factor, &Token::letter);
    Index count = found == axis.end() ? 0 : 1;
    for (auto token = axis.begin(); token != found && count > 0; ++token)
        count *= reading.dims[token->letter].value_or(0);
    std::vector<Interval> blocks;
    if (count <= 0 || size % count != 0) return blocks;
    for (Index k = 0; k < count; ++k) blocks.push_back({k * (size / count), (k + 1) * (size / count)});
    return blocks;
}

/// Finds the axis that tensor parallelism splits, and its blocks.
void find_tp(TensorForm& form, const Reading& reading, const Meaning& meaning) {
    const Expression& expression = meaning.rule->expression;
    const CanonicalTensor& first = reading.family->tensor(expression.parts[0]);
    const char factor = tp_factor(reading, first);
    if (factor == 0) return;
    const std::vector<Axis> axes = shape_axes(*reading.family, meaning);
    for (form.tp_axis = 0; form.tp_axis < static_cast<int>(axes.size()); ++form.tp_axis) {
        const Axis& axis = axes[static_cast<std::size_t>(form.tp_axis)];
        if (leads(axis, factor)) {
            form.tp_blocks = {{0, form.shape[form.tp_axis]}};
            return;
        }
        if (auto blocks = blocks_before(reading, axis, factor, form.shape[form.tp_axis]); !blocks.empty()) {
            form.tp_blocks = std::move(blocks);
            return;
        }
        if (!leads(axis, '+')) continue;
        const auto brought = at_plus(first, axes);
        if (brought.empty() || brought[0] != factor) continue;
        form.tp_blocks = part_blocks(reading, expression, form.shape[form.tp_axis]);
        return;
    }
    throw failure("factor '{}' does not lead an axis, so tensor parallelism cannot split it", factor);
}

/// Finds how many experts there are, and their axis if they are stacked.
void find_experts(TensorForm& form, const Reading& reading, const Meaning& meaning) {
    if (reading.family->tensor(meaning.rule->expression.parts[0]).ep == 0) return;
    form.expert = meaning.indices.expert.value_or(0);
    form.experts = reading.dims['e'].value_or(0);
    if (is_axis(*reading.family, meaning, 'e')) {
        const std::vector<Axis> axes = shape_axes(*reading.family, meaning);
        const auto found = std::ranges::find_if(axes, [](const Axis& axis) { return leads(axis, 'e'); });
        if (found == axes.end() || found->size() > 1)
            throw failure("its experts have no axis of their own, so they cannot be distinguished");
        form.expert_axis = static_cast<int>(found - axes.begin());
        form.experts = form.shape[form.expert_axis];
    }
    if (form.experts <= form.expert)
        throw failure("expert {} does not exist: the configuration has {}", form.expert,
                      counted(static_cast<std::uint64_t>(form.experts), "expert"));
}

TensorForm make_form(const Reading& reading, const Tensor& tensor, const Meaning& meaning);

/// The form of a tensor of codes or scales: that of its weight, with the units of the stored axes.
TensorForm form_of_part(const Reading& reading, const Tensor& tensor, const WeightPart& part) {
    TensorForm form = make_form(reading, part.weight, part.meaning);
    const auto stored_axis = [&](int axis) {
        const auto found = std::ranges::find(part.axes, axis, &StoredAxis::axis);
        return axis < 0 || found == part.axes.end() ? -1 : static_cast<int>(found - part.axes.begin());
    };
    form.shape = tensor.shape;
    form.layer_axis = stored_axis(form.layer_axis);
    const bool stacks_experts = form.expert_axis >= 0;
    form.expert_axis = stored_axis(form.expert_axis);
    if (stacks_experts && form.expert_axis < 0) form.experts = 0;  // all experts share it
    form.tp_axis = stored_axis(form.tp_axis);
    if (form.tp_axis < 0) return form;
    const StoredAxis& axis = part.axes[static_cast<std::size_t>(form.tp_axis)];
    form.tp_unit = axis.unit;
    form.tp_stored = axis.stored;
    return form;
}

TensorForm make_form(const Reading& reading, const Tensor& tensor, const Meaning& meaning) {
    if (meaning.weight_part) return form_of_part(reading, tensor, *meaning.weight_part);
    TensorForm form{.shape = tensor.shape};
    form.virtual_node = meaning.virtual_node;
    // Extras are not split, nor are unknown tensors of a known family.
    form.replicated =
        meaning.kind == Meaning::Kind::extra || (meaning.kind == Meaning::Kind::unknown && reading.family);
    if (!form.replicated) form.layer = meaning.indices.layer.value_or(-1);
    if (meaning.kind != Meaning::Kind::parameter) return form;
    const CanonicalTensor& first = reading.family->tensor(meaning.rule->expression.parts[0]);
    form.last = first.last;
    if (tensor.shape.empty()) return form;
    form.replicated = first.buffer;
    find_experts(form, reading, meaning);
    find_tp(form, reading, meaning);
    if (is_axis(*reading.family, meaning, 'l')) form.layer_axis = 0;
    return form;
}

/// The number of layers: the larger of that in the configuration and that by the layer numbers in names.
Index layer_numbers(const Reading& reading) {
    Index count = reading.dims['l'].value_or(0);
    for (const Meaning& meaning : reading.meanings)
        if (meaning.kind == Meaning::Kind::parameter)
            count = std::max<Index>(count, meaning.indices.layer.value_or(-1) + Index{1});
    return std::min<Index>(count, most_sized_layers);
}

/// Whether a tensor belongs to experts. The family of a dense model may have experts, too.
bool has_experts(const Reading& reading) {
    return std::ranges::any_of(reading.meanings, [&](const Meaning& meaning) {
        const Meaning& whole = meaning.weight_part ? meaning.weight_part->meaning : meaning;
        return whole.kind == Meaning::Kind::parameter &&
               reading.family->tensor(whole.rule->expression.parts[0]).ep != 0;
    });
}

}  // namespace

TensorForm form_of(const Reading& reading, const Tensor& tensor, const Meaning& meaning) {
    return in_context([&] { return fmt::format("tensor '{}'", tensor.name); },
                      [&] { return make_form(reading, tensor, meaning); });
}

TensorForm form_of(const TensorClass& kind) {
    TensorForm form{.first = kind.first, .last = kind.last, .experts = kind.experts, .pad = kind.pad};
    const int stacked = kind.experts > 0 ? 1 : 0;
    if (stacked == 1) form.shape.push_back(kind.experts);
    if (stacked == 1) form.expert_axis = 0;
    for (Index size : kind.shape) form.shape.push_back(size);
    if (kind.tp_axis >= 0) {
        form.tp_axis = kind.tp_axis + stacked;
        form.tp_blocks = {{0, kind.shape[kind.tp_axis]}};
    }
    return form;
}

void check_without_experts(const Layout& layout) {
    for (const auto& [key, degree] : {std::pair{"ep", layout.ep}, {"etp", layout.etp}})
        if (degree > 1) throw Error{Exit::usage, "layout: {}={}: the model has no experts; omit {}", key, degree, key};
}

void check_layout(const Reading& reading, const Layout& layout) {
    if (!reading.family) {
        if (layout.tp > 1 || layout.pp > 1)
            throw Error{Exit::usage,
                        "layout: {}: only fsdp and dp can change a checkpoint whose tensors no rule explains ({})",
                        to_string(layout), reading.why_not};
        return;
    }
    if ((layout.ep > 1 || layout.etp > 1) && !has_experts(reading)) check_without_experts(layout);
    const Index layers = layer_numbers(reading);
    for (const std::string& formula : reading.family->tp_divides) {
        const std::set<Index> sizes =
            values_by_layer(reading.dims, formula, *reading.family, reading.source(), reading.config, layers);
        const auto undivided = std::ranges::find_if(sizes, [&](Index size) { return size % layout.tp != 0; });
        if (undivided == sizes.end()) continue;
        Index common = 0;
        for (const Index size : sizes) common = std::gcd(common, size);
        throw Error{Exit::usage, "layout: {} cannot be split across tp={}; use tp={}",
                    formula == "n"      ? counted(static_cast<std::uint64_t>(*undivided), "attention head")
                    : sizes.size() == 1 ? size_text(reading, formula)
                                        : fmt::format("{} = {}", formula, *undivided),
                    layout.tp, fitting_degrees(common, layout.tp)};
    }
}

std::string fitting_degrees(Index size, int degree) {
    std::vector<int> found;
    for (int n = 1; n <= 2 * degree; ++n) {
        if (size % n == 0) found.push_back(n);
    }
    if (found.size() > 6) found.erase(found.begin(), found.end() - 6);
    return alternatives(found);
}

}  // namespace tpx
