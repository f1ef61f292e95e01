// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "lib/layout/family.hpp"

#include <map>
#include <string>
#include <string_view>
#include <vector>

namespace tpx {

/// A rule as written in a file: its name may still lack the prefix of layers.
struct WrittenRule {
    std::string name;
    Expression expression;
    std::vector<std::string> tags;
};

/// A dialect as written in a file.
struct WrittenDialect {
    std::vector<std::string> layer;  ///< the prefix of names that begin with '.'; several: any of them
    bool bare = false;
    bool replace = false;  ///< inherited rules of the same dialect are dropped
    std::vector<std::string> extra;
    std::vector<std::string> whole;
    std::vector<Nesting> nest;
    std::vector<WrittenRule> rules;
    std::map<Role, std::vector<RolePattern>> roles;
};

/// A file of rules, without those that it extends.
struct WrittenFamily {
    std::string source;                ///< the file, for messages
    Family own;                        ///< all but the dialects
    std::vector<std::string> extends;  ///< families to inherit from, in this order
    std::vector<std::string>
        remove;  ///< inherited tensors to drop, with the rules that use them, or names of rules to drop
    std::vector<std::string> without;  ///< inherited dialects to drop
    std::map<std::string, WrittenDialect> dialects;
    bool fragment = false;
};

/// Reads one file. Throws Error "FILE: line N: cause".
WrittenFamily parse_family_file(const FamilySource& source);

/// Reads only the keys before the first table of a file: those of FamilyHead, `extends` and `fragment`.
WrittenFamily parse_family_head(const FamilySource& source);

/// Changes `base` by what `more` adds, replaces and removes.
void add_family(WrittenFamily& base, const WrittenFamily& more);

/// The family that a file describes, together with everything that it extends. Throws Error "FILE: cause" if rules and
/// tensors contradict each other.
Family build_family(const WrittenFamily& written);

}  // namespace tpx
