// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "formats/source.hpp"
#include "lib/exec/mpi.hpp"
#include "lib/exec/options.hpp"

#include <cstdint>
#include <map>
#include <set>
#include <string>
#include <vector>

namespace tpx::cli {

/// What is compared, and how.
struct CompareOptions {
    bool cast = false;              ///< tensors whose dtypes differ value by value, A's cast to B's dtype
    bool weights_only = false;      ///< nothing but weights
    std::set<std::string> ignored;  ///< roles of tensors and values that are left out; see ignored_roles.hpp
    ExecOptions exec;               ///< limits for reading
};

/// How the states of two checkpoints compare, whatever their formats, layouts and dialects.
struct Comparison {
    /// A tensor or a value that differs, or that one side lacks.
    struct Difference {
        std::string role;
        std::string name;       ///< of a tensor, as A stores it, or B if A lacks it; of a value, its path
        std::string canonical;  ///< of a tensor that is a part of the one stored: the part's name
        std::string a;          ///< the name of the tensor, or the text of the value; empty: A lacks it
        std::string b;
        std::string cause;  ///< with numbers: the first index that differs and both values, or both shapes
        bool value = false;
        char lacking = 0;    ///< 'A' or 'B', when that side lacks it
        std::string absent;  ///< not empty: that side has nothing of this kind, a role or the first part of paths
    };
    std::vector<Difference> differences;
    std::vector<Difference> not_compared;          ///< what could not be compared, and why
    std::map<std::string, std::uint64_t> ignored;  ///< by role, how many tensors and values were left out
    std::vector<std::string> notes;                ///< how things were compared
    std::uint64_t compared = 0;                    ///< canonical tensors
    std::uint64_t values = 0;                      ///< values beside tensors
    std::uint64_t bytes = 0;
    std::string state_a;
    std::string state_b;

    bool equal() const { return differences.empty() && not_compared.empty(); }
};

/// Compares all tensors of `a` and `b`, and the values beside them that are training state. Weights that one of them
/// has in half precision beside masters, and the other in single precision without, are compared as masters, and a note
/// counts them; weights that one of them has as masters only must be what these round to. Collective.
Comparison compare(const mpi::Comm& comm, formats::Source& a, formats::Source& b, const CompareOptions& options);

}  // namespace tpx::cli
