// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "lib/core/catalogue.hpp"
#include "lib/layout/model_state.hpp"
#include "lib/layout/reading.hpp"

#include <map>
#include <set>
#include <span>
#include <string>
#include <vector>

namespace tpx {

/// How a state will be stored: the tensors to write, and a reading of them.
struct ExpressedState {
    Reading reading;
    std::vector<Tensor> tensors;
    /// Canonical tensors that are copies of others: a tied output layer is the embedding.
    std::map<std::string, std::string> aliases;
    /// Parts of the new tensors whose values come from parts of the source with other names: a weight that is kept in
    /// full precision comes from the source's master, a new master from the source's weight.
    std::map<std::string, std::string> copies;
    /// Parts of the source that are not written because they must equal other parts: attention values that are tied to
    /// the keys.
    std::map<std::string, std::string> dropped_ties;
    std::vector<std::string> dropped_names;  ///< names of tensors and parts of the source that are not written
};

/// The weights of `source` as whole tensors with the names and axes of `dialect`, and its optimizer state if the
/// dialect has names for it. If the dialect has no master weights, they become its weights; if it has, and `tags`
/// contains "masters", missing ones are made from the weights. `config` contains what the source's configuration lacks
/// (vocabulary divisor); `tp` is the degree that padding depends on; `tags` choose among spellings, and with "dist",
/// layers that are all alike share a tensor if the name allows it. Throws Error if the dialect cannot store a
/// parameter, a required one is missing, or the size of a factor is unknown; the message says how to specify it.
ExpressedState express(const Reading& source, std::span<const Tensor> tensors, const Dialect& dialect,
                       const Config& config, int tp, const std::set<std::string>& tags);

/// The tensors that store `model` in the dialect of `source`, a reading without tensors: its parameters in all roles,
/// but not the state of virtual nodes. Sizes and configuration are those of `source`; `tp` and `tags` are as for
/// express(). Throws Error if the dialect cannot store a parameter.
ExpressedState express_model(const Reading& source, const ModelState& model, int tp, const std::set<std::string>& tags);

/// The configuration keys that would give the sizes that `source` needs and lacks, separated by ", ".
std::string missing_sizes(const Reading& source);

/// The same tensors with the same names, padded for `tp`; unchanged for dialects that do not pad.
ExpressedState repad(const Reading& source, std::span<const Tensor> tensors, const Config& config, int tp);

/// One entry of a configuration for the framework that reads the new checkpoint.
struct ConfigSetting {
    std::string key;
    ConfigValue value;
    bool list = false;   ///< the value is written as a list; text of whole numbers, "0,2", is the whole list
    bool tuple = false;  ///< the list is written as a tuple if the format has tuples
};

/// `config` with the keys about stored tensors that formulas and conditions may contain; see configuration_for().
Config with_tensor_keys(const ExpressedState& expressed, const Config& config);

/// The settings of the model that the framework of `dialect` needs by the family's rules, as far as they are known.
/// Formulas may contain keys of `config`, sizes, `tied`, and for each stored canonical tensor `has_NAME`, `first_NAME`
/// (a layer), `without_NAME` (the layers that lack it, "0,2") and `flags_NAME` (for each layer, whether it has the
/// tensor, "0,1,0"); for each word of the list layer_types, `flags_WORD`.
std::vector<ConfigSetting> configuration_for(const ExpressedState& expressed, const std::string& dialect,
                                             const Config& config);

}  // namespace tpx
