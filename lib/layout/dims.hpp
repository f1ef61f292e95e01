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

/// The sizes of a family's factors, as far as they are known.
class Dims {
public:
    Dims() = default;

    /// Evaluates the formulas of `family` for the given source of configuration ("hf", "mcore"). What `config` does not
    /// tell stays unknown.
    Dims(const Family& family, std::string_view source, const Config& config);

    /// Evaluates what is still unknown, now that more factors may be known.
    void derive(const Family& family, std::string_view source, const Config& config);

    /// Evaluates the factors whose size varies from layer to layer, for this layer, as far as formulas give it; see
    /// layer_formula(). `lists` are those of `config`.
    void derive_layer(const Family& family, std::string_view source, const Config& config, const ListItems& lists,
                      int layer);

    /// These sizes with those that derive_layer() adds.
    Dims of_layer(const Family& family, std::string_view source, const Config& config, const ListItems& lists,
                  int layer) const;

    std::optional<Index> operator[](char letter) const;
    void set(char letter, Index size) { sizes_[letter] = size; }

    /// The value of a formula such as "make_vocab_size_divisible_by * tp": alternatives ('|') of sums of products and
    /// quotients of numbers, factors and configuration keys; `KEY if OTHER` counts only when OTHER is true. Nothing
    /// when no alternative can be evaluated. `config` is asked for keys, `extra` before it.
    std::optional<Index> evaluate(std::string_view formula, const Config& config, const Config& extra = {}) const;

    /// Like evaluate(), for any kind of value: an alternative may also be true, false, null, 'text', a number with a
    /// point, or a key, whose value is taken over unless it is null. Where one alternative is a number with a point, so
    /// is the value.
    std::optional<ConfigValue> value(std::string_view formula, const Config& config) const;

    const std::map<char, Index>& known() const { return sizes_; }

private:
    std::optional<ConfigValue> plain_value(std::string_view formula, const Config& config) const;

    std::map<char, Index> sizes_;
};

/// The formula for `source` of a factor whose size varies from layer to layer, see Family::varies(). It has the form of
/// a condition, where `l` is the layer and `TABLE.l.KEY` the entry of that layer. Null if the factor does not vary, or
/// if the shapes of tensors alone give its size.
const std::string* layer_formula(const Family& family, char letter, std::string_view source);

/// The values that `formula` has in the first `layers` layers, see Dims::evaluate(): one if no factor of it varies.
/// Empty if it cannot be evaluated.
std::set<Index> values_by_layer(const Dims& dims, std::string_view formula, const Family& family,
                                std::string_view source, const Config& config, Index layers);

/// Whether the sizes of a model are unknown without the shapes of its tensors: a factor varies without a formula.
bool has_sizes_of_shapes(const Family& family, std::string_view source);

/// Whether a condition "key", "!key" or "key=value" holds in `config`; a missing key is false.
bool holds(const Config& config, std::string_view condition);

/// A value as text: true, 4, 0.5, words as they are, nothing for null.
std::string spelled(const ConfigValue& value);

/// The integer under `key`, if there is one.
std::optional<Index> integer(const Config& config, std::string_view key);

/// Which layer and expert a name with these numbers in it is for: those of `{l-L}` count from L. Nothing when the name
/// is not for them, or L is not known.
std::optional<NameIndices> indices_of(const NameTemplate& name, NameIndices numbers, const Dims& dims);

/// The numbers to write into a name: the inverse of indices_of(). Nothing when the name is not for these indices.
std::optional<NameIndices> numbers_in(const NameTemplate& name, NameIndices indices, const Dims& dims);

/// The words of a formula or condition: factors, keys and numbers.
std::vector<std::string> formula_words(std::string_view formula);

}  // namespace tpx
