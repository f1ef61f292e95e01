// SPDX-License-Identifier: Apache-2.0
#include "formats/encodings/dcp/draft_chunks.hpp"
#include "formats/megatron/dist_checkpointing.hpp"
#include "formats/megatron/driver.hpp"
#include "formats/megatron/new_objects.hpp"
#include "formats/megatron/torch_dist.hpp"

namespace tpx::formats {

Draft draft_torch_dist(const Content& content) {
    const NewObjects objects = megatron::new_objects(content, megatron::ObjectForm::listed);
    Draft draft = draft_chunks(content, megatron::new_folder(content), false, objects);
    megatron::add_common_files(draft, content, torch_dist_driver.name);
    return draft;
}

}  // namespace tpx::formats
