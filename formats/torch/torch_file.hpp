// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "formats/checkpoint.hpp"
#include "formats/encodings/torch/archive.hpp"

#include <cstdint>
#include <map>

namespace tpx::formats {

/// Opens one torch.save file, zip or legacy stream. Tensors are named by the keys that lead to them, joined with '.',
/// and each is one piece; ignores other values. Compressed, big-endian, conjugated and negated elements are decoded on
/// reading. Throws Error "FILE: ..." if the file is malformed or two tensors would have the same name.
Checkpoint open_torch_file(Format format, const std::filesystem::path& file);

/// Drafts one torch.save file, `draft_file_name`, as archive or stream. From a torch.save file whose names are kept, it
/// contains the same objects in the same places; from a DCP checkpoint, the structure in its planner data, as
/// dcp_to_torch_save writes it; otherwise the weights by name, in {"model": ...} if there is more: optimizer state by
/// parameter in "optimizer", and the source's common state as plain data. Throws Error for more than one rank.
Draft draft_torch(Format format, const Content& content);

inline constexpr const char* draft_file_name = "checkpoint.pt";

/// The tensors of `checkpoint` whose bytes are part of another tensor's of the same dtype, which has no gaps. Keys and
/// `TensorView::tensor` are tensor numbers.
std::map<std::uint32_t, TensorView> find_views(const Checkpoint& checkpoint);

/// A note about tensor subclasses, whose elements may have another meaning to their class; empty if there are none.
std::string subclass_note(const torch::Archive& archive);

}  // namespace tpx::formats
