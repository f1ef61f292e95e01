// SPDX-License-Identifier: Apache-2.0
#include "formats/dcp/adam_entries.hpp"
#include "formats/dcp/dcp.hpp"
#include "formats/dcp/driver.hpp"
#include "formats/dcp/flattened_state.hpp"
#include "formats/encodings/dcp/draft_chunks.hpp"

namespace tpx::formats {

Draft draft_dcp(const Content& content) {
    NewObjects objects;
    if (content.source != nullptr && content.source->format == &dcp_driver)
        objects.kept = content.source->catalogue.objects;
    else if (content.source != nullptr)
        objects = flattened_state(content);
    return draft_chunks(content, "", true, objects, adam_entries(content));
}

}  // namespace tpx::formats
