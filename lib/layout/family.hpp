// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "lib/layout/notation.hpp"

#include <map>
#include <string>
#include <string_view>
#include <vector>

namespace tpx {

/// A canonical tensor: a name with factored axes, and what parallelism may do with it.
struct CanonicalTensor {
    std::string name;
    std::vector<Axis> axes;  ///< `l` and `e` lead and are indices, not axes of the pieces
    char tp = 0;             ///< the factor that tensor parallelism cuts; 0: replicated
    bool first = false;      ///< without layer: on the first stage
    bool last = false;       ///< without layer: on the last stage
    bool optional = false;   ///< a checkpoint may lack it
    std::string tie;         ///< the canonical tensor that it is when a checkpoint lacks it
};

/// A stored name and what is in it.
struct Rule {
    NameTemplate name;
    Expression expression;
    std::vector<std::string> tags;  ///< written only when one of them holds; no tags: always
};

/// How optimizer state is named: `pattern` has one `*`, the parameter's stored name.
struct RolePattern {
    std::string role;
    std::string pattern;
};

/// The names by which one framework stores a family's tensors.
struct Dialect {
    std::string name;
    std::vector<Rule> rules;
    std::vector<std::string> extra;  ///< globs of what is no parameter
    std::vector<RolePattern> roles;
};

/// One entry of a configuration that is written for a framework: see configuration_for().
struct ConfigEntry {
    std::string key;
    std::string formula;
    bool list = false;  ///< the value stands in a list of its own
};

/// Models that are built alike: the canonical tensors, where their sizes are found, and how each framework names them.
struct Family {
    std::string name;
    std::map<std::string, std::vector<std::string>> detect;   ///< by source of configuration: hf, mcore
    std::map<char, std::map<std::string, std::string>> dims;  ///< factor -> source of configuration -> formula
    std::map<std::string, std::map<char, std::string>> pad;   ///< dialect -> factor -> formula
    std::map<std::string, std::string> tied;                  ///< source of configuration -> condition
    std::map<std::string, std::vector<ConfigEntry>> config;   ///< by dialect: what its framework wants to be told
    std::vector<std::string> tp_divides;                      ///< formulas that tp must divide
    std::map<std::string, CanonicalTensor, std::less<>> tensors;
    std::vector<Dialect> dialects;

    const Dialect* dialect(std::string_view wanted) const;
    const CanonicalTensor& tensor(std::string_view wanted) const;  ///< throws Error when there is none
};

/// Reads one family from TOML. `source` names it in errors. Throws Error "SOURCE: line N: cause".
Family parse_family(std::string_view toml, std::string_view source);

}  // namespace tpx
