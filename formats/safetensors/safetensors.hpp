// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "formats/checkpoint.hpp"

#include <filesystem>
#include <map>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace tpx::formats {
/// Whether `directory` looks like a safetensors checkpoint: it contains an index or *.safetensors, or its folder
/// `sharded` contains *.safetensors.
bool holds_safetensors(const std::filesystem::path& directory);

/// Opens one *.safetensors file, one *.safetensors.index.json with its files, or a directory: an index, else
/// model.safetensors, else all *.safetensors (whole tensors, or the boxes recorded in DCP_SHARDING_INFO), else those in
/// its folder `sharded`. Throws Error if a file is malformed or missing, if files and index disagree, or if several
/// files contain a tensor without recording their parts. Does not check for holes; see lib/core/coverage.hpp.
Checkpoint open_safetensors(const std::filesystem::path& path);

/// The values in the headers of the files of `checkpoint`, without those that describe the files themselves, such as
/// torchao's descriptions of quantized weights. If files differ, the first value counts.
std::map<std::string, std::string> header_values(const Checkpoint& checkpoint);

/// Whether a key of a header describes its file.
bool describes_file(std::string_view key);

/// Whether the files of `checkpoint` store all `tensors` under the same names, in the same dtypes.
bool stores_alike(const Checkpoint& checkpoint, std::span<const Tensor> tensors);

/// "dropped 2 safetensors header values ('k', ...)".
std::string dropped_values_note(const std::map<std::string, std::string>& values);

/// If one rank holds each tensor whole, drafts model.safetensors or, if tensors exceed shard_size,
/// model-0000i-of-0000N.safetensors and their index, byte for byte as the reference library and transformers write
/// them. Otherwise a rank's pieces go into shard-0000R-model-0000i-of-0000N.safetensors with DCP_SHARDING_INFO, as in
/// PyTorch's HuggingFaceStorageWriter; a second box of a tensor goes into another file, and an empty box of a nonempty
/// tensor into none. All files get the header_values() of a source in this format; if names or dtypes change, which the
/// values may describe, they are dropped with a note in `notes`. The draft has the pieces of `content`, in the same
/// order. Throws Error "tensor 'NAME': ..." for tensors that safetensors cannot store.
Draft draft_safetensors(const Content& content, std::vector<std::string>* notes = nullptr);

}  // namespace tpx::formats
