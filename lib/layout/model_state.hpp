// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "lib/core/box.hpp"
#include "lib/core/dtype.hpp"
#include "lib/layout/config.hpp"
#include "lib/layout/family.hpp"
#include "lib/state/role.hpp"

#include <string>
#include <string_view>
#include <vector>

namespace tpx {

/// Tensors that are alike: one for each of `layers` and each of `experts`.
struct TensorClass {
    std::string name;               ///< canonical: "q", "embed"
    Shape shape;                    ///< of one tensor, without axes for layers and experts and without padding
    int tp_axis = -1;               ///< the axis that tp (etp for experts) splits into equal parts; -1: none
    Index pad = 0;                  ///< if positive, tp_axis is padded to a multiple of pad * tp before the split
    std::vector<int> layers;        ///< the layers that have one; empty: it belongs to no layer
    Index experts = 0;              ///< the number of experts per layer that have one; 0: it belongs to no expert
    bool first = false;             ///< outside layers: on the first stage
    bool last = false;              ///< outside layers: on the last stage; with `first`: on both, like tied embeddings
    bool of_virtual_nodes = false;  ///< axis 0 counts virtual nodes; its only role is virtual_node
};

/// One kind of value that is kept for every parameter.
struct StateRole {
    Role role = Role::weight;  ///< or master, exp_avg, exp_avg_sq, virtual_node
    DType dtype = DType::f32;

    bool is_of_virtual_nodes() const { return role == Role::virtual_node; }
    /// ZeRO stages 1 and 2 shard these across replicas.
    bool is_optimizer() const { return is_optimizer_state(role); }
};

/// All state that a job keeps, independent of the layout. Planning needs no more than this.
struct ModelState {
    std::string name;
    int layers = 0;  ///< layers that are split across the stages; layers beyond these (MTP) are on the last stage
    std::vector<TensorClass> classes;
    std::vector<StateRole> roles;   ///< every class has all of them, except the state of virtual nodes
    std::vector<Index> tp_divides;  ///< numbers that tp must divide, such as that of attention heads
    Index virtual_node_bytes = 0;   ///< state of a virtual node per layer: RNG streams, batch-norm statistics
    double experts_per_token = 1;   ///< experts of a layer that process a token
};

/// The number of parameters of a model, each counted once.
Index parameters(const ModelState& model);

/// Adds the state of `count` virtual nodes to `model`, if they keep any: a class of bytes, in a role of its own, in all
/// layers. The state of a virtual node is on all ranks of its dp coordinate that hold the layer, see
/// dp_of_virtual_node().
void add_virtual_nodes(ModelState& model, int count);

/// Reads "train" (weight:bf16 and master, exp_avg, exp_avg_sq in f32: 14 bytes a parameter), "weights", or a list such
/// as "weight:bf16,exp_avg:f32". A weight without a dtype has `weights`, another role f32. Throws Error (usage) that
/// says what is allowed.
std::vector<StateRole> parse_roles(std::string_view text, DType weights);

/// The model of `family` that `config`, from `source` ("hf", "mcore"), describes. The family's conditions ([present])
/// decide which layers have optional tensors. Throws Error (usage) if a size is missing or invalid; the message names
/// the size and its formula.
ModelState model_of(const Family& family, std::string_view source, const Config& config, std::vector<StateRole> roles);

}  // namespace tpx
