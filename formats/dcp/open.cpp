// SPDX-License-Identifier: Apache-2.0
#include "formats/companions.hpp"
#include "formats/dcp/dcp.hpp"
#include "formats/dcp/metadata.hpp"
#include "formats/dcp/training_roles.hpp"
#include "formats/megatron/common_of_dcp.hpp"
#include "lib/core/coverage.hpp"
#include "lib/core/error.hpp"

namespace tpx::formats {
namespace {

void refuse_per_rank_metadata(const std::filesystem::path& directory) {
    if (std::filesystem::exists(directory / ".metadata") || !std::filesystem::exists(directory / "__0.metadata"))
        return;
    throw failure("{}: each rank wrote its own metadata (use_collectives=False), which tpx cannot read",
                  (directory / "__0.metadata").string());
}

}  // namespace

void open_chunks(const std::filesystem::path& directory, Checkpoint& checkpoint) {
    checkpoint.catalogue.directory = directory;
    read_metadata(directory, checkpoint);
    check_extents(checkpoint);
    in_context([&] { return (directory / ".metadata").string(); }, [&] { find_holes(checkpoint.catalogue); });
}

Checkpoint open_dcp(const std::filesystem::path& directory) {
    refuse_per_rank_metadata(directory);
    Checkpoint checkpoint;
    checkpoint.format = Format::dcp;
    open_chunks(directory, checkpoint);
    read_config(directory, checkpoint);
    read_companions(checkpoint, {});
    megatron::read_args(checkpoint);
    tell_training_roles(checkpoint);
    return checkpoint;
}

}  // namespace tpx::formats
