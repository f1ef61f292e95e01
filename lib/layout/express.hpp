// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "lib/core/catalogue.hpp"
#include "lib/layout/model.hpp"
#include "lib/layout/reading.hpp"

#include <map>
#include <set>
#include <span>
#include <string>
#include <vector>

namespace tpx {

/// How a state shall be stored: a reading of tensors that do not exist yet.
struct Expressed {
    Reading reading;
    std::vector<Tensor> tensors;
    /// Canonical tensors that stand in for others: a tied output layer is the embedding.
    std::map<std::string, std::string> aliases;
    /// Parts of the new tensors that hold what other parts of the source do: a weight that is kept in full precision is
    /// the source's master, a new master is the source's weight.
    std::map<std::string, std::string> copies;
    /// Parts of the source that are not written because they must equal other parts: values of layers that are the
    /// keys.
    std::map<std::string, std::string> dropped_ties;
    std::vector<std::string>
        left_out;  ///< stored names of the source that have no place here, and why it is no loss, or that it is
};

/// The weights of `source` in the names and axes of `dialect`, whole, and its optimizer state if the dialect has names
/// for that. A dialect without master weights gets them as its weights; with tag "masters" one that has them gets some.
/// `config` holds what the source's configuration lacks (vocabulary divisor); `tp` is the degree that padding depends
/// on; `tags` choose among spellings, and with "dist" layers that are all alike share a tensor where a name allows it.
/// Throws Error when the dialect cannot hold a parameter, when a required one is missing, or when a factor's size is
/// unknown; the message says how to give it.
Expressed express(const Reading& source, std::span<const Tensor> tensors, const Dialect& dialect, const Config& config,
                  int tp, const std::set<std::string>& tags);

/// The tensors that the dialect of `source`, which has no tensors itself, stores of `model`: its parameters in all of
/// its roles, but not the state of virtual nodes. Sizes and configuration are those of `source`; `tp` and `tags` are as
/// for express(). Throws Error when the dialect cannot hold a parameter.
Expressed express_model(const Reading& source, const ModelState& model, int tp, const std::set<std::string>& tags);

/// The formulas of the sizes that `source` needs and does not know, as far as they ask a configuration.
std::string missing_sizes(const Reading& source);

/// The same tensors under the same names, but padded as `tp` asks; the identity for all dialects that do not pad.
Expressed repad(const Reading& source, std::span<const Tensor> tensors, const Config& config, int tp);

/// One entry of a configuration for the framework that reads the new checkpoint.
struct ConfigSetting {
    std::string key;
    ConfigValue value;
    bool list = false;   ///< the value stands in a list of its own; text of whole numbers, "0,2", is that list
    bool tuple = false;  ///< and the list is a tuple where the format has them
};

/// `config` with what formulas and conditions may ask of the tensors that are stored: see configuration_for().
Config known_of(const Expressed& expressed, const Config& config);

/// What the family's rules say that the framework of `dialect` must be told of the model, as far as it is known.
/// Formulas see `config`, the sizes, `tied`, and for each canonical tensor that is stored `has_NAME`, `first_NAME` (a
/// layer), `without_NAME` (the layers that lack it, "0,2") and `flags_NAME` (for each layer whether it has it,
/// "0,1,0"); for each word of the list layer_types `flags_WORD`.
std::vector<ConfigSetting> configuration_for(const Expressed& expressed, const std::string& dialect,
                                             const Config& config);

}  // namespace tpx
