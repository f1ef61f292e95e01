// SPDX-License-Identifier: Apache-2.0
#include "formats/deepspeed/frozen_parameters.hpp"

#include "formats/driver.hpp"
#include "formats/state/roles.hpp"
#include "lib/core/error.hpp"
#include "lib/layout/occurrences.hpp"

#include <algorithm>

namespace tpx::formats {
namespace {

/// The weights, including those that exist only as masters.
Occurrences parameters_of(const Source& source) {
    const auto& tensors = source.checkpoint.catalogue.tensors;
    Occurrences found = occurrences_of(source.reading, tensors, Role::weight);
    for (auto& [name, master] : occurrences_of(source.reading, tensors, Role::master))
        found[name].places.insert(master.places.begin(), master.places.end());
    return found;
}

}  // namespace

void check_frozen_parameters(const Source& source, const Target& target, std::vector<std::string>& notes) {
    if (target.format->has_param_groups) return;
    const auto& source_notes = source.checkpoint.notes;
    const auto note =
        std::ranges::find_if(source_notes, [](const auto& text) { return text.starts_with(frozen_excluded_note); });
    if (source.reading.family) {
        in_context(
            [] { return "parameters are missing, as in a checkpoint saved with exclude_frozen_parameters=True"; },
            [&] { require_layers(source.reading, parameters_of(source)); });
        return;
    }
    if (note == source_notes.end()) return;
    if (target.dialect != "keep")
        throw failure(
            "{}: frozen parameters are missing, and it is unknown which ({}); save the checkpoint with them, or "
            "convert the others with --dialect keep",
            frozen_excluded_note, source.reading.why_not);
    notes.push_back(*note);
}

}  // namespace tpx::formats
