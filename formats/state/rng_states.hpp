// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "formats/checkpoint.hpp"
#include "formats/encodings/torch/archive.hpp"
#include "formats/encodings/torch/archive_writer.hpp"
#include "lib/layout/layout.hpp"

#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <tuple>
#include <vector>

namespace tpx::formats::megatron {

/// Whose random numbers a state makes. Megatron keeps one for each (pp, tp), and of experts over several ranks for each
/// expert-parallel rank (rank files) or each data-parallel one (torch_dist) too.
struct RngPlace {
    int pp = 0;
    int tp = 0;
    int ep = 0;
    int replica = 0;  ///< data and context parallelism together, in the order of ranks

    friend auto operator<=>(const RngPlace&, const RngPlace&) = default;
};

/// The places of a layout's ranks, by rank.
std::vector<RngPlace> rng_places(const Layout& layout);

/// How many replicas each (pp, tp) of a layout has.
inline int rng_replicas(const Layout& layout) { return layout.dp * layout.cp; }

/// The states of random number generators that a Megatron checkpoint has.
class RngStates {
public:
    /// Those of rank files, or of the objects "rng_state/..." of torch_dist, which DCP made of Megatron's formats has,
    /// too; none of other formats and where Megatron was told to save none.
    explicit RngStates(const Checkpoint& checkpoint);
    RngStates() = default;

    bool empty() const { return states_.empty(); }

    /// Calls `visit` for each state, by place: the list as it is stored, and the archive that holds its tensors.
    void for_each(const std::function<void(const RngPlace& place, const torch::Archive& archive, torch::Value list)>&
                      visit) const;

    /// Whether the source has a state of each rank of `layout`, so that none is made up.
    bool has_all(const Layout& layout) const;

    /// The list of states (one, or one a data-parallel rank) for a rank at `place` of `layout`, its tensors in
    /// `contents`. A rank that the source has not continues that of the nearest lower one, and where a state of CUDA's
    /// generator shows its seed, it gets the one that Megatron would give it, so that no two ranks draw the same
    /// numbers. Precondition: not empty().
    torch::Value state(torch::Document& document, torch::Contents& contents, const RngPlace& place,
                       const Layout& layout) const;

private:
    struct State {
        RngPlace place;
        std::shared_ptr<const Fd> file;  // of an archive inside a file
        std::shared_ptr<const torch::Archive> archive;
        torch::Value list;
    };

    void add_files(const Checkpoint& checkpoint);
    void add_objects(const Checkpoint& checkpoint);
    void add(State state);
    const State& source_of(const RngPlace& place) const;
    RngPlace wrapped(const RngPlace& place) const;

    std::map<RngPlace, State> states_;
    RngPlace extent_;  // one more than the largest of each coordinate
};

/// An object as torch_dist has it.
struct RngObject {
    std::string name;
    std::string archive;
};

/// The states of a Megatron checkpoint, all as they are, as objects; none where it has none.
std::vector<RngObject> rng_objects_of(const Checkpoint& source);

/// The name of the object of `place` in torch_dist.
std::string rng_object_name(const RngPlace& place, const Layout& layout);

}  // namespace tpx::formats::megatron
