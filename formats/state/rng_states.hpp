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

/// The ranks to which an RNG state belongs. Megatron stores one state per (pp, tp) and, with expert parallelism, also
/// per expert-parallel rank (rank files) or data-parallel rank (torch_dist).
struct RngPlace {
    int pp = 0;
    int tp = 0;
    int ep = 0;
    int replica = 0;  ///< data and context parallelism together, in the order of ranks

    friend auto operator<=>(const RngPlace&, const RngPlace&) = default;
};

/// The places of a layout's ranks, by rank.
std::vector<RngPlace> rng_places(const Layout& layout);

/// The number of replicas of each (pp, tp) of a layout.
inline int rng_replicas(const Layout& layout) { return layout.dp * layout.cp; }

/// The RNG states of a Megatron checkpoint.
class RngStates {
public:
    /// Reads the states of rank files, or of the objects "rng_state/..." of torch_dist, which DCP checkpoints converted
    /// from Megatron's formats have, too. Other formats have none, and neither do checkpoints saved with --no-save-rng.
    explicit RngStates(const Checkpoint& checkpoint);
    RngStates() = default;

    bool empty() const { return states_.empty(); }

    /// Calls `visit` for each state, by place: the list as it is stored, and the archive that contains its tensors.
    void for_each(const std::function<void(const RngPlace& place, const torch::Archive& archive, torch::Value list)>&
                      visit) const;

    /// Whether the source has a state for each rank of `layout`, so that no rank reuses another's.
    bool has_all(const Layout& layout) const;

    /// The list of states (one, or one per data-parallel rank) for a rank at `place` of `layout`, with its tensors in
    /// `contents`. A rank that the source lacks reuses another rank's state: its coordinates are taken modulo the
    /// source's degrees. If a state of CUDA's generator contains the seed, the seed becomes the one that Megatron would
    /// use, so that no two ranks draw the same numbers. Precondition: not empty().
    torch::Value state(torch::Document& document, torch::Contents& contents, const RngPlace& place,
                       const Layout& layout) const;

private:
    struct State {
        RngPlace place;
        std::shared_ptr<const Fd> file;  // the open file that contains the archive
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

/// An object as torch_dist stores it.
struct RngObject {
    std::string name;
    std::string archive;
};

/// The RNG states of a Megatron checkpoint, unchanged, as objects; empty if it has none.
std::vector<RngObject> rng_objects_of(const Checkpoint& source);

/// The name of the object of `place` in torch_dist.
std::string rng_object_name(const RngPlace& place, const Layout& layout);

}  // namespace tpx::formats::megatron
