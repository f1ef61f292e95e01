// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "lib/core/catalogue.hpp"
#include "lib/layout/dims.hpp"
#include "lib/layout/families.hpp"

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

namespace tpx {

struct WeightPart;

/// What one stored tensor means to its family.
struct Meaning {
    enum class Kind : std::uint8_t {
        parameter,  ///< a weight, or optimizer state of a weight, by `rule`
        extra,      ///< known not to be a parameter (RNG state, counters)
        unknown     ///< no rule matches it
    };
    Kind kind = Kind::unknown;
    const Rule* rule = nullptr;
    Role role = Role::weight;  ///< or master, exp_avg, exp_avg_sq, step: a role of the dialect
    NameIndices indices;
    int virtual_node = -1;  ///< the virtual node whose state this extra is; -1: none
    /// For an unknown tensor of codes or scales of a quantized weight: what it stores of the weight; else null.
    std::shared_ptr<const WeightPart> weight_part = nullptr;
};

/// Unit of a stored axis: every `unit` elements along weight axis `axis` are stored as `stored` elements here.
struct StoredAxis {
    int axis = -1;  ///< of the weight; -1: the same elements belong to the whole weight
    Index unit = 1;
    Index stored = 1;
};

/// A stored tensor of codes or scales of a quantized weight.
struct WeightPart {
    Tensor weight;
    Meaning meaning;               ///< of the weight
    std::vector<StoredAxis> axes;  ///< of the stored tensor
    bool can_split = true;         ///< false: its last axis has numbered groups and stays whole
};

/// The source of `config` for tensors of `dialect`: "mcore" for Megatron's args, "hf" for a config.json; either may
/// come with names of the other. If `config` does not show it, the source of the dialect's own framework.
std::string_view config_source(const Dialect& dialect, const Config& config);

/// How the tensors of a checkpoint are read: by which family, in which framework's names.
struct Reading {
    const Family* family = nullptr;            ///< null: no family fits
    std::shared_ptr<const Family> own_family;  ///< `family`, if it was made for this checkpoint alone
    const Dialect* dialect = nullptr;          ///< null exactly if `family` is
    bool prefixed = false;                     ///< the names carry the dialect's bracketed prefix
    std::vector<Meaning> meanings;             ///< one per tensor
    std::vector<std::uint32_t> unknown;
    Dims dims;
    bool complete = false;  ///< the size of every factor in use is known, so tensors can be taken apart
    bool tied = false;      ///< the configuration says that the output layer is the embedding
    Config config;
    ListItems lists;      ///< those of `config`
    std::string why_not;  ///< if no family fits: which came closest and what it lacks

    /// The source of `config`, see config_source(); "hf" if no family fits.
    std::string_view source() const { return dialect ? config_source(*dialect, config) : "hf"; }
};

/// Finds the family and dialect whose rules match every tensor (except extras and state of virtual nodes) and that fit
/// the configuration, if there is one; of several, the best by FamilyMatch::rank(). Then computes the sizes of the
/// factors from the configuration and the shapes. Throws Error "tensor 'NAME': ..." if configuration and shapes
/// contradict each other.
Reading read(std::span<const Tensor> tensors, const Families& families, const Config& config);

/// The sizes of factors in `layer`, see Dims::derive_layer().
Dims sizes_in_layer(const Reading& reading, int layer);

/// Adds sizes that are known from elsewhere, and updates `complete`.
void add_dims(Reading& reading, const Dims& known);

/// The factor of `tensor` that tensor parallelism splits, or 0. Megatron's own layers (transformer_impl=local in the
/// configuration of `reading`) split some tensors that others replicate.
char tp_factor(const Reading& reading, const CanonicalTensor& tensor);

/// Whether `index` ('l' or 'e') of its parts is an axis of the stored tensor, because it is not in its name.
bool is_axis(const Family& family, const Meaning& meaning, char index);

/// How many layers the tensors of `reading` have; those for multi-token prediction do not count.
int layers(const Reading& reading, std::span<const Tensor> tensors);

}  // namespace tpx
