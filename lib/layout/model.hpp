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
    Shape shape;                    ///< of one of them: layers and experts are no axes of it, padding is not counted
    int tp_axis = -1;               ///< which axis tensor parallelism cuts into equal parts (etp for experts); -1: none
    Index pad = 0;                  ///< if positive, tp_axis is filled up to a multiple of pad * tp before it is cut
    std::vector<int> layers;        ///< the layers that have one; empty: it belongs to no layer
    Index experts = 0;              ///< how many experts have one; 0: it belongs to no expert
    bool first = false;             ///< without layer: on the first stage
    bool last = false;              ///< without layer: on the last stage; with `first`: on both, as tied embeddings are
    bool of_virtual_nodes = false;  ///< axis 0 counts virtual nodes; has only the role of their state
};

/// One of the values that are kept for every parameter.
struct StateRole {
    Role role = Role::weight;  ///< or master, exp_avg, exp_avg_sq, virtual_node
    DType dtype = DType::f32;

    bool is_of_virtual_nodes() const { return role == Role::virtual_node; }
    /// ZeRO stages 1 and 2 share these among replicas.
    bool is_optimizer() const { return is_of_optimizer(role); }
};

/// All that a job keeps, before any layout: planning needs no more than this.
struct ModelState {
    std::string name;
    int layers = 0;  ///< that are dealt to the stages; those beyond (MTP) are on the last one
    std::vector<TensorClass> classes;
    std::vector<StateRole> roles;   ///< every class has all of them, but for the state of virtual nodes
    std::vector<Index> tp_divides;  ///< of attention heads: how many there are; tp must divide them
    Index virtual_node_bytes = 0;   ///< that a virtual node keeps for each layer: RNG streams, batch-norm statistics
    double experts_per_token = 1;   ///< experts of a layer that work on a token
};

/// The parameters of a model, each counted once.
Index parameters(const ModelState& model);

/// Adds the state of `count` virtual nodes to `model`, if it has any: a class of bytes, in a role of its own, in all
/// layers. Virtual node k is on coordinate k * dp / count of dp, on all ranks there that hold the layer.
void add_virtual_nodes(ModelState& model, int count);

/// Reads "train" (weight:bf16 and master, exp_avg, exp_avg_sq in f32: 14 bytes a parameter), "weights", or a list as
/// "weight:bf16,exp_avg:f32". A weight without type has `weights`. Throws Error (usage) that says what is allowed.
std::vector<StateRole> parse_roles(std::string_view text, DType weights);

/// The model of `family` that `config`, of the given source ("hf", "mcore"), describes. Which optional tensors there
/// are, and in which layers, is what the family's conditions say. Throws Error (usage) that names the size that is
/// missing and where it is looked for, or that cannot be.
ModelState model_of(const Family& family, std::string_view source, const Config& config, std::vector<StateRole> roles);

}  // namespace tpx
