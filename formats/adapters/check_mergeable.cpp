// SPDX-License-Identifier: Apache-2.0
#include "formats/adapters/check_mergeable.hpp"

#include "formats/driver.hpp"
#include "formats/recognize.hpp"
#include "lib/core/error.hpp"
#include "lib/core/path.hpp"
#include "lib/layout/adapter_family.hpp"

#include <fmt/ranges.h>

#include <algorithm>

namespace tpx::formats {
namespace {

namespace fs = std::filesystem;

/// Requires that the adapter can be merged, and that the source has no state that depends on the unmerged weights.
void check_base(const Source& source, const Adapter& adapter) {
    if (!adapter.settings.unmergeable.empty())
        throw failure("{}: adapters with {} cannot be merged by tpx; merge with PEFT (merge_and_unload)",
                      adapter_config_name, fmt::join(adapter.settings.unmergeable, ", "));
    const auto is_state = [](const Meaning& meaning) {
        return meaning.kind == Meaning::Kind::parameter && meaning.role != Role::weight &&
               meaning.role != Role::quantized;
    };
    if (std::ranges::any_of(source.reading.meanings, is_state) || !source.checkpoint.training_files.empty())
        throw Error{Exit::usage,
                    "--merge-adapter: the base has optimizer state of its weights before the merge; add --drop "
                    "optimizer"};
    if (!source.checkpoint.archives.empty())
        throw failure("the base's tensors are in torch.save archives; convert it to safetensors first");
}

}  // namespace

void reject_bridge_adapter(const fs::path& directory) {
    if (path_is_file(directory / adapter_config_name) || !path_is_directory(directory)) return;
    const Format format = recognize(directory).format;
    if (format == nullptr || !format->has_args || format->has_rank_names) return;
    const Checkpoint found = open(directory);
    if (!are_adapter_tensors(found.catalogue.tensors, {})) return;
    throw Error{Exit::usage,
                "{0}: an adapter of Megatron Bridge, which is merged in two steps: tpx reshard {0} PEFT --to tp=1 "
                "--format safetensors --config BASE/config.json; tpx reshard BASE OUT --to tp=1 --merge-adapter PEFT",
                directory.string()};
}

void check_mergeable(const Source& source, const Adapter& adapter) { check_base(source, adapter); }

}  // namespace tpx::formats
