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

/// What one stored tensor is to its family.
struct Meaning {
    enum class Kind : std::uint8_t {
        parameter,  ///< a weight, or optimizer state of a weight, by `rule`
        extra,      ///< known to be no parameter (RNG state, counters)
        unknown     ///< no rule says what it is
    };
    Kind kind = Kind::unknown;
    const Rule* rule = nullptr;
    Role role = Role::weight;  ///< or master, exp_avg, exp_avg_sq, step: a role of the dialect
    NameIndices indices;
    int virtual_node = -1;  ///< of an extra that one virtual node keeps: its number; -1: of all ranks
    /// Of an unknown tensor that is codes or scales of a quantized weight: what it stores of the weight; else null.
    std::shared_ptr<const WeightPart> weight_part = nullptr;
};

/// Unit of a stored axis: every `unit` elements along weight axis `axis` are stored as `stored` elements here.
struct StoredAxis {
    int axis = -1;  ///< of the weight; -1: the same elements belong to all of the weight
    Index unit = 1;
    Index stored = 1;
};

/// A stored tensor that has codes or scales of a quantized weight.
struct WeightPart {
    Tensor weight;
    Meaning meaning;               ///< of the weight
    std::vector<StoredAxis> axes;  ///< of the stored tensor
    bool can_split = true;         ///< false: its last axis has numbered groups and stays whole
};

/// Whose words `config` speaks about tensors of `dialect`: "mcore" for Megatron's args, "hf" for a config.json; either
/// may stand beside names of the other. Where it does not tell, those of the dialect's own framework.
std::string_view configured_by(const Dialect& dialect, const Config& config);

/// How the tensors of a checkpoint are understood: by which family, in which framework's names.
struct Reading {
    const Family* family = nullptr;            ///< null: none fits
    std::shared_ptr<const Family> own_family;  ///< `family`, if it is made for this checkpoint alone
    const Dialect* dialect = nullptr;          ///< null exactly when family is
    bool prefixed = false;                     ///< the names carry the dialect's bracketed prefix
    std::vector<Meaning> meanings;             ///< one a tensor
    std::vector<std::uint32_t> unknown;
    Dims dims;
    bool complete = false;  ///< the size of every factor in use is known, so tensors can be taken apart
    bool tied = false;      ///< the configuration says that the output layer is the embedding
    Config config;
    ListItems lists;      ///< those of `config`
    std::string why_not;  ///< when no family fits: which came closest and what it lacks

    /// The source of configuration that speaks for this dialect: "mcore", or "hf" for all others.
    std::string_view source() const { return dialect ? configured_by(*dialect, config) : "hf"; }
};

/// Finds the family and dialect whose rules match every tensor (extras and state of virtual nodes aside) and that the
/// configuration, if there is one, asks for; of several that match, the plainest. Then solves the sizes of the factors
/// from the configuration and the shapes. Throws Error "tensor 'NAME': ..." when configuration and shapes contradict
/// each other.
Reading read(std::span<const Tensor> tensors, const Families& families, const Config& config);

/// The sizes of factors in `layer`, see Dims::derive_layer().
Dims sizes_in_layer(const Reading& reading, int layer);

/// Adds sizes that are known from elsewhere, and what follows from them.
void add_dims(Reading& reading, const Dims& known);

/// The factor along which tensor parallelism cuts `tensor`, or 0: Megatron's own layers, of which `reading` may have
/// been configured (transformer_impl=local), cut some that others replicate.
char tp_factor(const Reading& reading, const CanonicalTensor& tensor);

/// Whether an index of its parts ('l' or 'e') is an axis of the stored tensor, as it is not in its name.
bool is_axis(const Family& family, const Meaning& meaning, char index);

/// How many layers the tensors of `reading` have; those for multi-token prediction do not count.
int layers(const Reading& reading, std::span<const Tensor> tensors);

}  // namespace tpx
