// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "formats/checkpoint.hpp"
#include "formats/encodings/torch/archive.hpp"

#include <cstdint>
#include <map>

namespace tpx::formats {

/// Opens one file of torch.save, zip or legacy stream: its tensors are called by the keys on the way to them, joined
/// with '.', and each is one piece; what else is in it is left aside. Compressed, big-endian, conjugated and negated
/// elements are decoded where they are read. Throws Error "FILE: ..." when it is malformed, or when two tensors would
/// have one name.
Checkpoint open_torch_file(Format format, const std::filesystem::path& file);

/// One file of torch.save, `draft_file_name`, as archive or as stream. From a file of torch.save whose names are kept,
/// it holds the same objects in the same places; from a DCP checkpoint, what its planner data says, as
/// dcp_to_torch_save puts it; otherwise the weights by name, in {"model": ...} when there is more: optimizer state by
/// parameter in "optimizer", and the source's common state as plain data. Throws Error for more than one rank.
Draft draft_torch(Format format, const Content& content);

inline constexpr const char* draft_file_name = "checkpoint.pt";

/// The tensors of `checkpoint` that lie in the bytes of another one that has no gaps, of one dtype: by their numbers,
/// which `View::tensor` means too.
std::map<std::uint32_t, View> find_views(const Checkpoint& checkpoint);

/// Names tensors of classes of their own, which hold elements as others do, though these may mean something else to
/// their class; empty when there are none.
std::string note_of_classes(const torch::Archive& archive);

}  // namespace tpx::formats
