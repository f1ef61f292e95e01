// SPDX-License-Identifier: Apache-2.0
#include "lib/change/model_check.hpp"

#include "lib/core/error.hpp"
#include "lib/layout/tensor_form.hpp"

#include <algorithm>
#include <numeric>

namespace tpx {
namespace {

/// Adds `a` times `b` to `sum`; returns false on overflow.
bool add_product(Index& sum, Index a, Index b) {
    Index product = 0;
    return !__builtin_mul_overflow(a, b, &product) && !__builtin_add_overflow(sum, product, &sum);
}

void check_class(const TensorClass& kind) {
    const auto wrong = [&](const std::string& what) { return Error{Exit::usage, "tensor '{}': {}", kind.name, what}; };
    if (checked_volume(kind.shape) < 0) throw wrong(fmt::format("shape {} is impossible", to_string(kind.shape)));
    if (kind.tp_axis >= kind.shape.size())
        throw wrong(fmt::format("shape {} has no axis {} to split", to_string(kind.shape), kind.tp_axis));
    constexpr Index largest_padding = 1 << 30;
    if (kind.pad < 0 || kind.pad > largest_padding || kind.experts < 0)
        throw wrong(fmt::format("padding {} or number of experts {} is out of range", kind.pad, kind.experts));
    for (int layer : kind.layers) {
        if (layer < 0) throw wrong(fmt::format("layer {} is impossible", layer));
    }
}

/// "tp=1, 2 or 4": the values of `key` near `degree` that divide `size`.
std::string fitting(std::string_view key, Index size, int degree) {
    return fmt::format("{}={}", key, fitting_degrees(size, degree));
}

bool is_cut_equally(const TensorClass& kind) { return kind.tp_axis >= 0 && kind.pad == 0; }

/// The number that tp must divide to split all tensors outside experts or, if `experts`, etp all those of experts.
Index common_divisor(const ModelState& model, bool experts) {
    Index common = 0;
    for (const TensorClass& kind : model.classes) {
        if (is_cut_equally(kind) && (kind.experts > 0) == experts) common = std::gcd(common, kind.shape[kind.tp_axis]);
    }
    return common;
}

void check_cut(const ModelState& model, const TensorClass& kind, const Layout& layout) {
    const bool of_experts = kind.experts > 0;
    const int parts = of_experts && layout.etp > 0 ? layout.etp : layout.tp;
    const std::string_view key = of_experts && layout.etp > 0 ? "etp" : "tp";
    if (is_cut_equally(kind) && kind.shape[kind.tp_axis] % parts != 0)
        throw Error{Exit::usage,
                    "tensor '{}': axis {} of length {} cannot be split across {}={}; use {}",
                    kind.name,
                    kind.tp_axis,
                    kind.shape[kind.tp_axis],
                    key,
                    parts,
                    fitting(key, common_divisor(model, of_experts), parts)};
    if (kind.of_virtual_nodes && kind.shape[0] != layout.vn)
        throw Error{Exit::usage, "layout: vn={}, but the state is that of {} virtual nodes, whose number cannot change",
                    layout.vn, kind.shape[0]};
    if (kind.of_virtual_nodes && !layout.vn_parts.empty())
        throw Error{Exit::usage, "layout: vn=[...]: state of virtual nodes requires equal parts, vn={}", layout.vn};
    if (kind.of_virtual_nodes && kind.shape[0] % layout.dp != 0)
        throw Error{Exit::usage, "layout: {} virtual nodes cannot be split evenly across dp={}; use {}", layout.vn,
                    layout.dp, fitting("dp", layout.vn, layout.dp)};
    if (of_experts && kind.experts % layout.ep != 0)
        throw Error{Exit::usage, "tensor '{}': {} experts cannot be split across ep={}; use {}",
                    kind.name,   kind.experts,
                    layout.ep,   fitting("ep", kind.experts, layout.ep)};
}

}  // namespace

void check_model(const ModelState& model) {
    Index itemsizes = 0;  // at least 1 in the product below, so that sizes are bounded even without roles
    for (const StateRole& role : model.roles) {
        if (itemsize(role.dtype) == 0)
            throw Error{Exit::usage, "role '{}': elements of {} are not whole bytes", role.role, name(role.dtype)};
        itemsizes += itemsize(role.dtype);
    }
    constexpr Index largest = Index{1} << 62;
    Index bytes = 0;
    for (const TensorClass& kind : model.classes) {
        check_class(kind);
        const Index layers = kind.layers.empty() ? 1 : static_cast<Index>(kind.layers.size());
        Index tensors = 0;
        Index elements = 0;
        if (!add_product(tensors, layers, std::max<Index>(kind.experts, 1)) ||
            !add_product(elements, tensors, volume(kind.shape)) ||
            !add_product(bytes, elements, std::max<Index>(itemsizes, 1)) || bytes > largest)
            throw Error{Exit::usage, "tensor '{}': shape {}, {} layers, {} experts: more than 2^62 bytes",
                        kind.name,   to_string(kind.shape),
                        layers,      kind.experts};
    }
}

void check_cuts(const ModelState& model, const Layout& layout) {
    in_context([&] { return to_string(layout); },
               [&] {
                   for (Index count : model.tp_divides) {
                       if (count % layout.tp != 0)
                           throw Error{Exit::usage, "layout: {} attention heads cannot be split across tp={}; use {}",
                                       count, layout.tp, fitting("tp", count, layout.tp)};
                   }
                   if (std::ranges::none_of(model.classes, [](const TensorClass& kind) { return kind.experts > 0; }))
                       check_without_experts(layout);
                   for (const TensorClass& kind : model.classes) check_cut(model, kind, layout);
               });
}

}  // namespace tpx
