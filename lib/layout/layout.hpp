// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "lib/core/interval.hpp"

#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace tpx {

/// A parallel layout: degrees of parallelism and the order of the axes over the ranks. See tpx-layout(5).
struct Layout {
    int tp = 1;        ///< tensor
    int pp = 1;        ///< pipeline stages
    int dp = 1;        ///< data, replicas and shards together
    int cp = 1;        ///< context
    int ep = 1;        ///< expert
    int etp = 0;       ///< tensor parallelism inside experts; 0: as tp
    int vpp = 1;       ///< model chunks a stage
    int zero = 0;      ///< ZeRO stage
    int fsdp = 1;      ///< of dp: over how many ranks parameters are cut
    int fsdp_dim = 0;  ///< along which axis; 1 falls back to 0 where axis 1 is missing or does not divide
    int efsdp =
        0;       ///< fsdp inside experts, where it has a mesh axis beside ep, along axis 1; 0: what ep leaves of fsdp
    int vn = 0;  ///< virtual nodes; 0: not used
    std::vector<int> vn_parts;  ///< number of virtual nodes of each dp coordinate; empty: even parts
    std::vector<int> stages;    ///< layers of each model chunk in pipeline order; empty: even
    std::optional<int> first;   ///< layers of the first stage, the other stages share the rest
    std::optional<int> last;    ///< layers of the last stage
    std::string order = "tp-cp-ep-dp-pp";

    int hsdp() const { return dp / fsdp; }  ///< replicas of each set of fsdp shards
    int ranks() const { return tp * pp * dp * cp; }

    friend bool operator==(const Layout&, const Layout&) = default;
};

/// Where a rank stands on the axes of a layout.
struct Coordinates {
    int tp = 0;
    int pp = 0;
    int dp = 0;
    int cp = 0;
};

/// Where a rank stands among those that hold experts, which have a grid of their own over the same ranks: etp and ep
/// take the places of tp and ep in `order`, what is left of tp, cp and dp is dp.
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

/// The shortest text that parse_layout reads as `layout`; "tp=1" when all is 1.
std::string to_string(const Layout& layout);

/// Where `rank` stands; the first axis of `order` runs fastest.
Coordinates coordinates(const Layout& layout, int rank);

/// The rank at `at`: the inverse of coordinates().
int rank_at(const Layout& layout, const Coordinates& at);

/// How many consecutive ranks hold whole TP groups: tp where tp is the first axis of `order`, else as many times more
/// as the axes before it have ranks. They divide the ranks.
int tp_span(const Layout& layout);

/// The degree of tensor parallelism inside experts.
int expert_tp(const Layout& layout);

/// How many ranks hold the same part of the same expert.
int expert_dp(const Layout& layout);

/// Over how many ranks FSDP cuts an expert that ep deals out. Throws Error (usage) when copies do not divide them.
int expert_fsdp(const Layout& layout);

/// The rank at `at` of the grid of experts.
int expert_rank_at(const Layout& layout, const ExpertCoordinates& at);

/// The stage of each of `layers` layers. Throws Error (exit 2) when the stages cannot have equal parts of them, or when
/// first, last or stages do not add up; the message names layouts that do.
std::vector<int> stages_of_layers(const Layout& layout, int layers);

/// The words that a layout is made of, for completion: "tp=", "pp=", ...
std::vector<std::string> layout_keys();

}  // namespace tpx
