// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "lib/layout/config.hpp"
#include "lib/layout/list_items.hpp"

#include <functional>
#include <optional>
#include <string_view>

namespace tpx {

/// Returns the value of a word in a condition, or nothing if it is unknown. Lists are text: "0,1,1".
using Lookup = std::function<std::optional<ConfigValue>(std::string_view)>;

/// Whether a condition such as "l >= first_k_dense_replace & l % 2 = 0 | true" holds; nothing if that is unknown.
///   A | B      the first known alternative
///   A if B     A if B is known to hold, else unknown
///   A & B, !A  both; not
///   a < b      and <=, >, >=, =, !=, for numbers; = and != also for 'text'
///   a in LIST  a is one of the list's numbers
///   LIST[a]    its a-th number or word, counted from 0; TEXT.letters[a] is a letter of TEXT
///   + - * / %  as in C, on whole numbers; inexact quotients are unknown
/// A number holds if it is not 0, text if it is not empty. Throws Error "condition '...': cause (at N)" on a syntax
/// error, whatever the values of words are. The items of LIST[a] come from `lists`; if it lacks the key, and for
/// `a in LIST`, from the text that `lookup` returns.
std::optional<bool> evaluate_condition(std::string_view condition, const Lookup& lookup, const ListItems& lists = {});

/// The value of a formula with the same syntax; nothing if it is unknown or not a whole number.
std::optional<std::int64_t> evaluate_number(std::string_view formula, const Lookup& lookup,
                                            const ListItems& lists = {});

/// Throws Error if `condition` has a syntax error; see evaluate_condition().
void check_condition(std::string_view condition);

}  // namespace tpx
