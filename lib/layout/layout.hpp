// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "lib/core/interval.hpp"

#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace tpx {

/// Whether the text of a layout contains a key, even with its default value. Comparisons of layouts ignore it.
struct IsWritten {
    bool yes = false;
    friend bool operator==(IsWritten, IsWritten) { return true; }
};

/// A parallel layout: degrees of parallelism and the order of the axes over the ranks. See tpx-layout(5).
struct Layout {
    int tp = 1;        ///< tensor
    int pp = 1;        ///< pipeline stages
    int dp = 1;        ///< data, replicas and shards together
    int cp = 1;        ///< context
    int ep = 1;        ///< expert
    IsWritten ep_key;  ///< of ep=: a checkpoint of DeepSpeed may keep its own ep without the key
    int etp = 0;       ///< tensor parallelism inside experts; 0: same as tp
    int vpp = 1;       ///< model chunks per stage
    int zero = 0;      ///< ZeRO stage
    int fsdp = 1;      ///< the number of ranks of dp across which parameters are sharded
    int fsdp_dim = 0;  ///< the axis that fsdp splits; 1 falls back to 0 if axis 1 is missing or not divisible
    int efsdp = 0;     ///< fsdp inside experts, along axis 1, if it has its own mesh axis; 0: what ep leaves of fsdp
    int vn = 0;        ///< virtual nodes; 0: not used
    std::vector<int> vn_parts;  ///< number of virtual nodes of each dp coordinate; empty: even parts
    std::vector<int> stages;    ///< layers of each model chunk in pipeline order; empty: even
    std::optional<int> first;   ///< layers of the first stage; the other stages share the rest
    std::optional<int> last;    ///< layers of the last stage
    std::string order = "tp-cp-ep-dp-pp";

    int hsdp() const { return dp / fsdp; }  ///< replicas of each set of fsdp shards
    int ranks() const { return tp * pp * dp * cp; }

    friend bool operator==(const Layout&, const Layout&) = default;
};

/// The coordinates of a rank on the axes of a layout.
struct Coordinates {
    int tp = 0;
    int pp = 0;
    int dp = 0;
    int cp = 0;
};

/// The coordinates of a rank on the grid of experts, which covers the same ranks: etp takes the place of tp in `order`,
/// and dp covers what etp and ep leave of tp, cp and dp.
struct ExpertCoordinates {
    int etp = 0;
    int ep = 0;
    int dp = 0;
    int pp = 0;
};

/// Reads "tp=4,pp=2,fsdp=2". Throws Error (exit 2) that names the key, the value and what is allowed.
Layout parse_layout(std::string_view written);

/// Reads the same keys from TOML. `source` names it in errors.
Layout parse_layout_toml(std::string_view toml, std::string_view source);

/// The shortest text that parse_layout reads as `layout`; "tp=1" if all degrees are 1.
std::string to_string(const Layout& layout);

/// The coordinates of `rank`; the first axis of `order` varies fastest.
Coordinates coordinates(const Layout& layout, int rank);

/// The rank at `at`: the inverse of coordinates().
int rank_at(const Layout& layout, const Coordinates& at);

/// The smallest number of consecutive ranks that consist of whole TP groups: tp times the sizes of the axes before tp
/// in `order`, or 1 if tp is 1. It divides the number of ranks.
int tp_span(const Layout& layout);

/// The degree of tensor parallelism inside experts.
int expert_tp(const Layout& layout);

/// The ep of a checkpoint whose format keeps ep unless the layout sets it: that of `layout` if its text contains the
/// key; otherwise the largest divisor of `before`, the ep of the source, that divides dp.
int kept_expert_ranks(const Layout& layout, int before);

/// How many ranks hold the same part of the same expert.
int expert_dp(const Layout& layout);

/// The number of ranks across which FSDP splits the experts of an ep block. Throws Error (usage) if hsdp does not
/// divide the number of ranks that hold the same experts.
int expert_fsdp(const Layout& layout);

/// The rank at `at` on the grid of experts.
int expert_rank_at(const Layout& layout, const ExpertCoordinates& at);

/// The stage of each of `layers` layers. Throws Error (exit 2) if they cannot be split evenly, or if first, last or
/// stages do not add up to `layers`; for an uneven split, the message suggests layouts that fit.
std::vector<int> stages_of_layers(const Layout& layout, int layers);

/// The keys of a layout, for completion: "tp=", "pp=", ...
std::vector<std::string> layout_keys();

}  // namespace tpx
