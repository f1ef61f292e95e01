// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "formats/convert/conversion.hpp"

#include <map>
#include <set>
#include <string>
#include <vector>

namespace tpx::formats {

/// Which of several spellings of a dialect the target takes. Megatron has masters of half weights, and its distributed
/// optimizer of all.
std::set<std::string> spelling(const Source& source, const Target& target, const Config& config);

/// Throws Error (usage) when the target has no place for optimizer state that the source has: that is left out only
/// when it was asked for. `dialect` is the one that names are changed to; null: they are kept, and any tensor has its
/// place, but those that DeepSpeed's files do not name cannot stand among weights.
void check_states(const Source& source, const Target& target, const Dialect* dialect);

/// Throws Error (usage) when --dtype would round the scales of quantized weights.
void check_dtype(const Source& source, const Target& target);

/// Gives weights another type; nothing: they keep theirs.
void set_dtype(Expressed& expressed, std::optional<DType> dtype);

/// Gives weights that are made of their masters the types that the module has, by name.
void set_dtypes(Expressed& expressed, const std::map<std::string, DType>& made);

/// DeepSpeed's files keep the module's names, whatever the layout.
void keep_names(const Target& target, Expressed& expressed);

/// Tensors of a file of torch.save that lie in the bytes of others need none of their own in another such file: they
/// are taken out of `expressed`.
std::vector<View> take_views(const Source& source, const Target& target, const Dialect* dialect, Expressed& expressed);

/// Removes tensors of the source's format that another format of its framework has no place for from `expressed`, such
/// as the random states of layers in Keras 3.
void drop_unplaceable(const Source& source, const Target& target, Expressed& expressed);

/// Takes the settings along that go with optimizer state into another framework's checkpoint: the source's, or those of
/// given_adam(). Throws Error (usage) when nobody tells them, when the target cannot keep them apart, or when master
/// weights would be rounded.
void carry_adam(Source& source, const Target& target, Conversion& out);

}  // namespace tpx::formats
