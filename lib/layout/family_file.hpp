// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "lib/layout/family.hpp"

#include <map>
#include <string>
#include <string_view>
#include <vector>

namespace tpx {

/// A rule as it stands in a file: its name may still lack the prefix of layers.
struct WrittenRule {
    std::string name;
    Expression expression;
    std::vector<std::string> tags;
};

/// A dialect as it stands in a file.
struct WrittenDialect {
    std::vector<std::string> layer;  ///< what stands before names that begin with '.'; several: any of them
    bool bare = false;
    bool replace = false;  ///< rules of the same dialect that were inherited do not count
    std::vector<std::string> extra;
    std::vector<std::string> whole;
    std::vector<Nesting> nest;
    std::vector<WrittenRule> rules;
    std::map<Role, std::vector<RolePattern>> roles;
};

/// A file of rules before the files that it extends were added.
struct WrittenFamily {
    std::string source;                ///< the file, for messages
    Family own;                        ///< all but the dialects
    std::vector<std::string> extends;  ///< families that count first, in this order
    std::vector<std::string> remove;   ///< inherited tensors, with the rules that use them, or names of rules
    std::vector<std::string> without;  ///< inherited dialects that are left out
    std::map<std::string, WrittenDialect> dialects;
    bool fragment = false;
};

/// Reads one file. Throws Error "FILE: line N: cause".
WrittenFamily parse_family_file(const FamilySource& source);

/// Reads only what stands before the first table of a file: what FamilyHead contains, and `fragment`.
WrittenFamily parse_family_head(const FamilySource& source);

/// `base` with what `more` adds and replaces.
void add_family(WrittenFamily& base, const WrittenFamily& more);

/// The family that a file describes once all that it extends was added. Throws Error "FILE: cause" when rules and
/// tensors do not fit together.
Family build_family(const WrittenFamily& written);

}  // namespace tpx
