// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "cmd/inspect/adapter_text.hpp"
#include "cmd/jobs/open_checkpoint.hpp"
#include "cmd/output/output.hpp"
#include "lib/core/coverage.hpp"
#include "lib/layout/nearest_family.hpp"

#include <nlohmann/json.hpp>

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

namespace tpx::cli {

/// What tpx inspect finds out about a checkpoint in addition to its source.
struct Inspection {
    std::map<std::string, std::size_t> schemes;  ///< tensors with each quantization scheme
    std::vector<Hole> holes;
    std::optional<AdapterText> adapter;
    std::optional<FamilyFit> nearest;  ///< if no family explains the tensors
};

/// Inspects an open checkpoint. Adds notes to it, and gives codes and scales of quantized weights their role.
Inspection inspect(OpenedCheckpoint& opened, const std::string& path);

/// Tensors with one role and dtype.
struct Total {
    std::uint64_t tensors = 0;
    std::uint64_t elements = 0;
    std::uint64_t bytes = 0;
};

/// Totals by role and dtype.
std::map<std::pair<std::string, std::string>, Total> totals(const formats::Source& source);

/// The role of a tensor; "extra" or "unknown" if it has none.
std::string role_text(const formats::Source& source, std::size_t tensor);

/// The files, each once: a catalogue has one for each dataset of an HDF5 file that is decoded.
std::vector<const FileEntry*> files_of(const Catalogue& catalogue);

/// The number of pieces with the same box as an earlier piece of the same tensor.
std::uint64_t count_replicas(const Catalogue& catalogue);

std::vector<std::uint64_t> pieces_per_tensor(const Catalogue& catalogue);

/// Whether the family of a checkpoint is certain. An adapter of Megatron Bridge has names of several families, and only
/// its configuration distinguishes them.
bool is_family_known(const Reading& reading);

/// The document that --json prints, with a list of all tensors if `tensors`.
nlohmann::ordered_json inspect_json(const formats::Source& source, const Inspection& found, bool tensors);

/// Prints the same as text.
void print_inspection(const formats::Source& source, const Inspection& found, bool tensors, Output& out);

}  // namespace tpx::cli
