// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "formats/source.hpp"
#include "lib/exec/exec_options.hpp"
#include "lib/exec/mpi.hpp"

#include <cstdint>
#include <map>
#include <set>
#include <string>
#include <vector>

namespace tpx::cli {

/// What is compared, and how.
struct CompareOptions {
    bool cast = false;              ///< compare tensors with different dtypes by value, A's cast to B's dtype
    bool weights_only = false;      ///< compare only weights
    std::set<std::string> ignored;  ///< roles of tensors and values not to compare; see ignored_roles.hpp
    ExecOptions exec;               ///< limits for reading
};

/// The result of comparing the states of two checkpoints, whatever their formats, layouts and dialects.
struct Comparison {
    /// A tensor or a value that differs, or that one side lacks.
    struct Difference {
        std::string role;
        std::string name;       ///< of a tensor, as A stores it, or B if A lacks it; of a value, its path
        std::string canonical;  ///< canonical name of a tensor that is a part of the stored one; else empty
        std::string a;          ///< the name of the tensor, or the text of the value; empty: A lacks it
        std::string b;
        std::string cause;  ///< with numbers: the first index that differs and both values, or both shapes
        bool value = false;
        char lacking = 0;    ///< 'A' or 'B', when that side lacks it
        std::string absent;  ///< a role, or first key of a path, of which that side has nothing; else empty
    };
    std::vector<Difference> differences;
    std::vector<Difference> not_compared;          ///< what could not be compared, and why
    std::map<std::string, std::uint64_t> ignored;  ///< number of tensors and values not compared, by role
    std::vector<std::string> notes;                ///< how things were compared
    std::uint64_t compared = 0;                    ///< canonical tensors
    std::uint64_t values = 0;                      ///< non-tensor values
    std::uint64_t bytes = 0;
    std::string state_a;
    std::string state_b;

    bool equal() const { return differences.empty() && not_compared.empty(); }
};

/// Compares all tensors of `a` and `b`, and the non-tensor values that are training state. If one side has
/// half-precision weights with masters and the other has fp32 weights without masters, compares those masters with
/// those weights, and a note counts them. If one side has only masters, they must round to the weights of the other.
/// Collective.
Comparison compare(const mpi::Comm& comm, formats::Source& a, formats::Source& b, const CompareOptions& options);

}  // namespace tpx::cli
