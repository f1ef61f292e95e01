// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "lib/core/interval.hpp"
#include "lib/layout/config.hpp"
#include "lib/layout/family.hpp"
#include "lib/layout/list_items.hpp"

#include <map>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <vector>

namespace tpx {

/// The known sizes of a family's factors.
class Dims {
public:
    Dims() = default;

    /// Evaluates the formulas of `family` for the given source of configuration ("hf", "mcore"). Sizes that do not
    /// follow from `config` stay unknown.
    Dims(const Family& family, std::string_view source, const Config& config);

    /// Evaluates the formulas of factors that are still unknown, now that others may be known.
    void derive(const Family& family, std::string_view source, const Config& config);

    /// Evaluates, for this layer, the formulas of factors whose size varies from layer to layer; see layer_formula().
    /// `lists` are those of `config`.
    void derive_layer(const Family& family, std::string_view source, const Config& config, const ListItems& lists,
                      int layer);

    /// These sizes and those that derive_layer() adds.
    Dims of_layer(const Family& family, std::string_view source, const Config& config, const ListItems& lists,
                  int layer) const;

    std::optional<Index> operator[](char letter) const;
    void set(char letter, Index size) { sizes_[letter] = size; }

    /// The value of a formula such as "make_vocab_size_divisible_by * tp": alternatives ('|') of sums of products and
    /// quotients of numbers, factors and configuration keys; `KEY if OTHER` counts only if OTHER is true. Nothing if no
    /// alternative can be evaluated. Keys are looked up in `extra`, then in `config`.
    std::optional<Index> evaluate(std::string_view formula, const Config& config, const Config& extra = {}) const;

    /// Like evaluate(), for any kind of value: an alternative may also be true, false, null, 'text', a number with a
    /// decimal point, or a key with any value except null. If one alternative has a decimal point, a number is always
    /// returned as a double.
    std::optional<ConfigValue> value(std::string_view formula, const Config& config) const;

    const std::map<char, Index>& known() const { return sizes_; }

private:
    std::optional<ConfigValue> plain_value(std::string_view formula, const Config& config) const;

    std::map<char, Index> sizes_;
};

/// The formula for `source` of a factor whose size varies from layer to layer, see Family::varies(). It has the syntax
/// of a condition, where `l` is the layer and `TABLE.l.KEY` the entry of that layer. Null if the factor does not vary,
/// or if its size follows only from the shapes of tensors.
const std::string* layer_formula(const Family& family, char letter, std::string_view source);

/// The distinct values of `formula` in the first `layers` layers, see Dims::evaluate(): one if none of its factors
/// varies. Empty if it cannot be evaluated.
std::set<Index> values_by_layer(const Dims& dims, std::string_view formula, const Family& family,
                                std::string_view source, const Config& config, Index layers);

/// Whether some sizes of a model follow only from the shapes of its tensors: a factor varies and has no formula.
bool has_sizes_of_shapes(const Family& family, std::string_view source);

/// Whether a condition "key", "!key" or "key=value" holds in `config`; a missing key is false.
bool holds(const Config& config, std::string_view condition);

/// A value as text: true, 4, 0.5, text unchanged, empty for null.
std::string value_text(const ConfigValue& value);

/// The integer under `key`, if there is one.
std::optional<Index> integer(const Config& config, std::string_view key);

/// The layer and expert that a name with these numbers belongs to; number 0 of `{l-L}` is layer L. Nothing if the
/// numbers are outside the range of the name, or L is unknown.
std::optional<NameIndices> indices_of(const NameTemplate& name, NameIndices numbers, const Dims& dims);

/// The numbers to write into a name: the inverse of indices_of(). Nothing if the indices are outside the range of the
/// name.
std::optional<NameIndices> numbers_in(const NameTemplate& name, NameIndices indices, const Dims& dims);

/// The words of a formula or condition: factors, keys and numbers.
std::vector<std::string> formula_words(std::string_view formula);

}  // namespace tpx
