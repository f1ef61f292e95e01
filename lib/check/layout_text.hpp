// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace tpx {

/// The degrees of a layout as a plan file spells them; see tpx-layout(5).
struct Degrees {
    std::int64_t tp = 1, pp = 1, dp = 1, cp = 1, ep = 1, etp = 1, vpp = 1, zero = 0, fsdp = 1, hsdp = 1, fsdp_dim = 0,
                 vn = 0;
    std::vector<std::int64_t> stages;
    std::optional<std::int64_t> first, last;
    std::string order = "tp-cp-ep-dp-pp";

    std::int64_t ranks() const { return tp * pp * dp * cp; }
};

/// How many consecutive ranks consist of whole TP groups; 1 without tensor parallelism.
std::int64_t tp_span(const Degrees& degrees);

/// Reads "tp=4,pp=2,fsdp=2" as tpx writes it. Throws Error for anything else, and for degrees that do not fit together.
Degrees read_degrees(std::string_view text);

/// Maps each of `layers` layers to its stage; layers beyond these are on the last stage. Throws Error if the layers
/// cannot be split this way.
class Stages {
public:
    Stages(const Degrees& degrees, std::int64_t layers);
    std::int64_t of(std::int64_t layer) const;

private:
    std::int64_t pp_ = 1;
    std::vector<std::int64_t> chunks_;  // layers per chunk: of one turn around the stages or, if listed, of all turns
    std::int64_t turn_ = 0;             // layers of all these chunks
    std::int64_t layers_ = 0;
};

}  // namespace tpx
