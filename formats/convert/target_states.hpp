// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "formats/convert/conversion.hpp"

#include <map>
#include <set>
#include <string>
#include <vector>

namespace tpx::formats {

/// The tags that select the target's variants of names in a dialect. "masters": Megatron has masters of half-precision
/// weights, and with its distributed optimizer of all weights.
std::set<std::string> name_tags(const Source& source, const Target& target, const Config& config);

/// Throws Error (usage) if the target cannot store the source's optimizer state, which is omitted only on request.
/// `dialect` is the dialect of the new names; null: names are kept, and state is rejected only if the target stores
/// weights only and the source records roles.
void check_states(const Source& source, const Target& target, const Dialect* dialect);

/// Throws Error (usage) if --dtype would round the scales of quantized weights.
void check_dtype(const Source& source, const Target& target);

/// Changes the dtype of weights to that of the target; does nothing if the target has none. Weights in FP8 are changed
/// only if the target is `unscaled`.
void set_dtype(ExpressedState& expressed, const Target& target);

/// Sets the training dtypes of weights that are created from their masters; `made` has these by name.
void set_dtypes(ExpressedState& expressed, const std::map<std::string, DType>& made);

/// For DeepSpeed targets: tensors keep the module's names in every layout, so none needs a rule. Throws Error (usage)
/// for --dtype.
void keep_names(const Target& target, ExpressedState& expressed);

/// Removes from `expressed` the tensors of a torch.save file that share the bytes of others, and returns them as views
/// for a new torch.save file.
std::vector<TensorView> take_views(const Source& source, const Target& target, const Dialect* dialect,
                                   ExpressedState& expressed);

/// Removes from `expressed` the tensors that another format of the source's framework cannot store, such as the RNG
/// states of layers in Keras 3.
void drop_unsupported(const Source& source, const Target& target, ExpressedState& expressed);

/// Carries the settings of optimizer state over to another framework's checkpoint: the source's, or those of
/// adam_from_settings(). Throws Error (usage) if they are unknown, if the target cannot store different settings, or if
/// master weights would be rounded.
void carry_adam(Source& source, const Target& target, Conversion& out);

}  // namespace tpx::formats
