// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "lib/check/parcel_checker.hpp"
#include "lib/check/rank_grid.hpp"
#include "lib/core/box.hpp"

#include <map>
#include <unordered_map>

namespace tpx {

/// Computes what the ranks of two layouts hold of a model, in closed form: without a list of what other ranks hold.
class ModelNeeds {
public:
    /// Throws Error when a layout cannot shard the model, or has a different number of ranks from the tables.
    ModelNeeds(const PlanTables& tables, ParcelChecker& checker);

    /// Adds everything that new rank `rank` needs to the checker, with its holders.
    void add(std::int32_t rank);

private:
    struct End {
        Degrees degrees;
        RankGrid dense, experts;
        Stages stages;
        const RankGrid& grid(bool of_experts) const { return of_experts ? experts : dense; }
    };
    struct Hash {
        std::size_t operator()(const RankGroup& group) const;
    };
    using Groups = std::unordered_map<RankGroup, std::uint32_t, Hash>;
    /// How one layout shards one class.
    struct Cutting {
        bool shared_all;
        bool by_expert;  ///< shards are of whole experts
        bool by_dp;      ///< shards are of virtual nodes
        std::int64_t parts, shards;
        int shard_axis;
        std::int64_t part_size;
    };
    /// Layers that move from one stage to another, or a tensor outside the layers; `..._other` is a second stage or the
    /// same.
    struct Crossing {
        std::int32_t old_stage, old_other, new_stage, new_other;
        std::int64_t layers;
    };
    /// What a new rank needs, and in which stages old ranks may hold it.
    struct Wanted {
        std::size_t kind;
        bool optimizer;
        Box box;
        Interval experts;
        const std::vector<Crossing>* crossings;
        RankGroup needers;
    };

    static End make_end(const std::string& text, const ModelTables& model, std::size_t ranks);
    void check_size() const;
    void check_virtual_nodes() const;
    bool has(std::size_t kind, std::size_t role) const { return virtual_class_[kind] == virtual_role_[role]; }
    bool has_any(std::size_t kind, bool optimizer) const;
    void add_crossings(std::size_t kind);
    Cutting cutting(const End& end, std::size_t kind, bool optimizer) const;
    Interval whole_part(const Cutting& cut, std::size_t kind, int axis, std::int64_t part) const;
    Interval side(const Cutting& cut, std::size_t kind, int axis, std::int64_t part, std::int64_t shard) const;
    Box box(const Cutting& cut, std::size_t kind, std::int64_t part, std::int64_t shard) const;
    Interval experts(const End& end, std::size_t kind, std::int64_t block) const;
    std::uint32_t set(const SetNumbers& sets, Groups& known, const End& end, RankGroup group) const;
    std::pair<std::int32_t, std::int32_t> end_stages(const End& end, std::size_t kind) const;

    void add(std::int32_t rank, std::size_t kind, bool optimizer);
    void add_parts(const Wanted& wanted);
    void add_shards(const Wanted& wanted, const Cutting& old, std::int64_t part);
    void add_piece(const Wanted& wanted, const Cutting& old, std::int64_t part, std::int64_t shard);
    void add_block(const Wanted& wanted, RankGroup group, std::uint64_t elements, bool recut);
    static Interval shard_of(const Cutting& cut, Interval all, std::int64_t shard);

    std::int64_t size(std::size_t kind, int axis) const { return classes_.shape[kind * model_.widest + axis]; }
    int axes(std::size_t kind) const { return static_cast<int>(classes_.axes[kind]); }
    const Cutting& cut(bool old, std::size_t kind, bool optimizer) const {
        return cuttings_[kind * 4 + old * 2 + optimizer];
    }

    const HostTables& hosts_;
    const ModelTables& model_;
    const ClassTables& classes_;
    ParcelChecker& checker_;
    End old_, new_;
    std::vector<std::uint64_t> itemsizes_;                                  // of roles
    std::vector<bool> optimizer_;                                           // of roles
    std::vector<bool> virtual_role_, virtual_class_;                        // state of virtual nodes
    std::vector<std::map<std::int32_t, std::vector<Crossing>>> crossings_;  // of classes, by new stage
    std::vector<Cutting> cuttings_;  // of each class: new weights, new optimizer, old weights, old optimizer
    Groups old_groups_, new_groups_;
};

}  // namespace tpx
