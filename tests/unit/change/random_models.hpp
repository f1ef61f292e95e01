// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "lib/layout/layout.hpp"
#include "lib/layout/model_state.hpp"

#include <fmt/format.h>

#include <random>
#include <string>

namespace tpx::testing::models {

/// The random choices for models and layouts.
class RandomSource {
public:
    explicit RandomSource(unsigned seed) : engine_{seed} {}
    int between(int low, int high) { return std::uniform_int_distribution{low, high}(engine_); }
    bool once_in(int n) { return between(1, n) == 1; }
    int divisor(int n) {
        int found = between(1, n);
        while (n % found != 0) found = between(1, n);
        return found;
    }
    template <class T>
    T one_of(std::initializer_list<T> values) {
        return values.begin()[between(0, static_cast<int>(values.size()) - 1)];
    }

private:
    std::mt19937 engine_;
};

/// The number of virtual nodes in a random layout; any dp of random_layout() divides it.
inline constexpr int random_virtual_nodes = 12;

/// A layout that may not fit any model.
inline Layout random_layout(RandomSource& random, int layers) {
    Layout layout;
    layout.tp = random.between(1, 3);
    layout.pp = random.between(1, 3);
    layout.dp = random.between(1, 4);
    layout.vn = random_virtual_nodes;
    layout.cp = random.one_of({1, 1, 1, 2});
    const int stage = layout.tp * layout.dp * layout.cp;
    layout.ep = random.divisor(stage);
    layout.etp = random.one_of({0, 1, random.divisor(stage / layout.ep)});
    layout.zero = random.one_of({0, 0, 1, 2, 3});
    layout.fsdp = random.once_in(2) ? random.divisor(layout.dp) : 1;
    layout.fsdp_dim = random.between(0, 1);
    layout.order = random.one_of<std::string>(
        {"tp-cp-ep-dp-pp", "tp-cp-ep-dp-pp", "tp-dp-cp-ep-pp", "tp-cp-pp-ep-dp", "dp-cp-ep-tp-pp", "pp-tp-ep-cp-dp"});
    if (layers % layout.pp == 0 && random.once_in(2)) return layout;
    layout.vpp = random.between(1, 2);
    layout.stages.assign(layout.pp * layout.vpp, 0);
    for (int layer = 0; layer < layers; ++layer) ++layout.stages[random.between(0, layout.pp * layout.vpp - 1)];
    return layout;
}

inline TensorClass random_class(RandomSource& random, int layers, int number) {
    TensorClass kind{.name = fmt::format("t{}", number)};
    if (random.once_in(4)) {
        kind.first = random.once_in(2);
        kind.last = random.once_in(2);
    } else {
        for (int layer = 0; layer < layers + 2; ++layer) {
            if (random.between(0, 3) > 0) kind.layers.push_back(layer);
        }
    }
    kind.experts = random.once_in(3) ? random.one_of<Index>({12, 24}) : 0;
    const int axes = random.between(0, kind.experts > 0 ? 2 : 3);
    for (int k = 0; k < axes; ++k) kind.shape.push_back(random.between(1, 5));
    if (axes == 0 || random.once_in(3)) return kind;
    kind.tp_axis = random.between(0, axes - 1);
    if (random.once_in(3))
        kind.pad = random.between(1, 3);
    else
        kind.shape[kind.tp_axis] = random.one_of<Index>({6, 12});
    return kind;
}

/// Classes of all kinds, with few elements each.
inline ModelState random_model(RandomSource& random) {
    ModelState model{.name = "random", .layers = random.between(1, 6)};
    const int classes = random.between(1, 4);
    for (int number = 0; number < classes; ++number)
        model.classes.push_back(random_class(random, model.layers, number));
    model.roles = {{Role::weight, DType::bf16}, {Role::exp_avg, DType::f32}};
    if (random.once_in(2)) model.roles.push_back({Role::master, DType::f32});
    return model;
}

/// The same, one in three with state of virtual nodes.
inline ModelState random_model_with_virtual_nodes(RandomSource& random) {
    ModelState model = random_model(random);
    if (!random.once_in(3)) return model;
    model.virtual_node_bytes = random.between(1, 4);
    add_virtual_nodes(model, random_virtual_nodes);
    return model;
}

}  // namespace tpx::testing::models
