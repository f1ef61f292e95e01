// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "lib/layout/config.hpp"
#include "lib/layout/list_items.hpp"

#include <functional>
#include <optional>
#include <string_view>

namespace tpx {

/// What a word of a condition stands for; nothing when that is not known. Lists are text: "0,1,1".
using Lookup = std::function<std::optional<ConfigValue>(std::string_view)>;

/// Whether a condition such as "l >= first_k_dense_replace & l % 2 = 0 | true" holds; nothing when that is not known.
///   A | B      alternatives: the first that is known counts
///   A if B     A, where B is known to hold
///   A & B, !A  both; not
///   a < b      and <=, >, >=, =, !=, for numbers; = and != also for 'text'
///   a in LIST  a is one of the list's numbers
///   LIST[a]    its a-th number or word, counted from 0
///   + - * / %  as in C, of whole numbers; what has no exact value is not known
/// Numbers hold when they are not 0, text when it is not empty. Throws Error "condition '...': cause (at N)" when it
/// has another form; that does not depend on what words stand for. The items of LIST[a] come from `lists`; if it lacks
/// the key, and for `a in LIST`, from the text that `lookup` returns.
std::optional<bool> evaluate_condition(std::string_view condition, const Lookup& lookup, const ListItems& lists = {});

/// The whole number that a formula of the same form gives; nothing when it is unknown or no number.
std::optional<std::int64_t> evaluate_number(std::string_view formula, const Lookup& lookup,
                                            const ListItems& lists = {});

/// Throws Error when `condition` is not of the form that evaluate_condition() reads.
void check_condition(std::string_view condition);

}  // namespace tpx
