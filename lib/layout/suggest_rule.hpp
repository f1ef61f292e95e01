// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "lib/core/catalogue.hpp"
#include "lib/layout/dims.hpp"
#include "lib/layout/family.hpp"

#include <string>

namespace tpx {

/// The lines, separated by "; ", of a file for --rules that gives `family` a rule for a tensor that has none: a guess
/// that a person must review, with `?` for axes whose size is that of no factor.
std::string suggest_rule(const Family& family, const Dialect& dialect, const Dims& dims, const Tensor& tensor);

/// "no rule of family 'llama' matches this tensor; pass --rules FILE with a rule such as ...", or why_beyond_rules() of
/// the tensor.
std::string missing_rule_message(const Family& family, const Dialect& dialect, const Dims& dims, const Tensor& tensor);

}  // namespace tpx
