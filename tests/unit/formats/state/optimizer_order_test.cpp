// SPDX-License-Identifier: Apache-2.0
#include "formats/state/optimizer_order.hpp"

#include <doctest/doctest.h>

using namespace tpx;
using namespace tpx::formats;

namespace {

using Names = std::vector<std::string>;
using Groups = std::vector<std::vector<std::int64_t>>;

const std::vector<StateDictEntry> state_dict{
    {"a.weight", {4, 3}}, {"a.bias", {4}}, {"bn.running_mean", {4}, false}, {"b.weight", {2, 4}}, {"b.bias", {2}}};

}  // namespace

TEST_CASE("parameters are numbered in the model's order, without buffers") {
    const std::map<std::int64_t, Shape> shapes{{0, {4, 3}}, {1, {4}}, {2, {2, 4}}, {3, {2}}};
    CHECK(parameters_by_number(state_dict, Groups{{0, 1, 2, 3}}, shapes) ==
          Names{"a.weight", "a.bias", "b.weight", "b.bias"});
    // A parameter that never had a gradient has no state.
    CHECK(parameters_by_number(state_dict, Groups{{0, 1, 2, 3}}, {{2, {2, 4}}}).size() == 4);
}

TEST_CASE("two groups can contain matrices and vectors separately, in either order") {
    CHECK(parameters_by_number(state_dict, Groups{{0, 1}, {2, 3}}, {{0, {4, 3}}, {1, {2, 4}}, {2, {4}}, {3, {2}}}) ==
          Names{"a.weight", "b.weight", "a.bias", "b.bias"});
    CHECK(parameters_by_number(state_dict, Groups{{0, 1}, {2, 3}}, {{0, {4}}, {1, {2}}, {2, {4, 3}}, {3, {2, 4}}}) ==
          Names{"a.bias", "b.bias", "a.weight", "b.weight"});
}

TEST_CASE("other groups are possible if their shapes are distinct") {
    CHECK(parameters_by_number(state_dict, Groups{{0}, {1, 2}, {3}}, {{0, {2}}, {1, {4, 3}}, {2, {4}}, {3, {2, 4}}}) ==
          Names{"b.bias", "a.weight", "a.bias", "b.weight"});
    // The last layer comes first, as with learning rates per layer: equal shapes are ambiguous.
    const std::vector<StateDictEntry> layers{{"0.weight", {2, 2}}, {"1.weight", {2, 2}}};
    CHECK(parameters_by_number(layers, Groups{{0}, {1}}, {{0, {2, 2}}, {1, {2, 2}}}).empty());
    CHECK(parameters_by_number(layers, Groups{{0, 1}}, {{0, {2, 2}}, {1, {2, 2}}}) == Names{"0.weight", "1.weight"});
}

TEST_CASE("frozen parameters have no number") {
    std::vector<StateDictEntry> frozen = state_dict;
    frozen.insert(frozen.begin(), {"embedding", {9, 3}});
    const std::map<std::int64_t, Shape> shapes{{0, {4, 3}}, {1, {2, 4}}, {2, {4}}, {3, {2}}};
    CHECK(parameters_by_number(frozen, Groups{{0, 1}, {2, 3}}, shapes) ==
          Names{"a.weight", "b.weight", "a.bias", "b.bias"});
    frozen[0].shape = {2, 4};  // then b.weight could be the frozen one
    CHECK(parameters_by_number(frozen, Groups{{0, 1}, {2, 3}}, shapes).empty());
    frozen[0].shape = {9, 3};  // and the parameter without state could be it
    CHECK(parameters_by_number(frozen, Groups{{0, 1}, {2, 3}}, {{0, {4, 3}}, {1, {2, 4}}, {2, {4}}}).empty());
}

TEST_CASE("a parameter has the shape of its largest state") {
    std::map<std::int64_t, Shape> shapes;
    note_shape(shapes, 3, {});
    note_shape(shapes, 3, {4, 3});
    note_shape(shapes, 3, {1, 3});
    CHECK(shapes == std::map<std::int64_t, Shape>{{3, {4, 3}}});
}

TEST_CASE("nothing is guessed") {
    const std::map<std::int64_t, Shape> shapes{{0, {4, 3}}, {1, {4}}, {2, {2, 4}}, {3, {2}}};
    CHECK(parameters_by_number(state_dict, Groups{{0, 1, 2}}, {{0, {4, 3}}}).empty());       // one too few
    CHECK(parameters_by_number(state_dict, Groups{{1, 0, 2, 3}}, shapes).empty());           // another order
    CHECK(parameters_by_number(state_dict, Groups{{0, 1, 2, 3}}, {{0, {3, 4}}}).empty());    // another shape
    CHECK(parameters_by_number(state_dict, Groups{{0, 1, 2, 3}}, {}).empty());               // no state at all
    CHECK(parameters_by_number(state_dict, Groups{{0, 1}, {2, 3}}, {{0, {4, 3}}}).empty());  // two orders fit
    CHECK(parameters_by_number(state_dict, Groups{{0, 1, 2, 3}}, {{7, {2}}}).empty());
}
