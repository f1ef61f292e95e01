// SPDX-License-Identifier: Apache-2.0
#include "cmd/inspect/unfinished_output.hpp"

#include "lib/core/path.hpp"
#include "lib/core/unfinished.hpp"
#include "lib/core/units.hpp"
#include "lib/exec/journal.hpp"
#include "lib/exec/partial.hpp"

#include <nlohmann/json.hpp>

namespace tpx::cli {

bool print_unfinished(const std::filesystem::path& path, Output& out) {
    if (!path_is_directory(path) || !path_is_file(path / unfinished_marker)) return false;
    const PartialOutput partial = partial_at(path);
    const auto journals = read_journals(path);
    const std::uint64_t written = journals ? journals->bytes() : 0;
    if (out.json()) {
        nlohmann::ordered_json unfinished{
            {"what", partial.what}, {"written_bytes", written}, {"running", partial.is_live}};
        if (journals) unfinished["total_bytes"] = journals->header.total;
        if (journals) unfinished["request"] = fmt::format("{:016x}", journals->header.request);
        out.object("tpx.inspect/1", {{"directory", path.string()}, {"unfinished", unfinished}});
        return true;
    }
    out.result("{}: {}; not a checkpoint\n", printable(path.string()), partial.what);
    if (journals && journals->header.total > 0)
        out.result("written    {} of {}, {:.0f} %\n", format_bytes(static_cast<double>(written)),
                   format_bytes(static_cast<double>(journals->header.total)),
                   100.0 * static_cast<double>(written) / static_cast<double>(journals->header.total));
    out.result("run        {}\n",
               partial.is_live ? "has not ended" : "has ended; the same command continues it, --clean removes it");
    return true;
}

}  // namespace tpx::cli
