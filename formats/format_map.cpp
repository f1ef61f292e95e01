// SPDX-License-Identifier: Apache-2.0
#include "formats/format_map.hpp"

#include "formats/registry.hpp"

#include <fmt/format.h>

namespace tpx::formats {
namespace {

std::string_view mark(bool yes) { return yes ? "yes" : ""; }

}  // namespace

std::string written_text(const Driver& driver) {
    if (driver.written == WritableFrom::any) return "yes";
    return driver.written == WritableFrom::nothing ? "" : fmt::format("only if the source is {}", driver.framework);
}

std::string format_map_markdown() {
    std::string out =
        "| format | `--format` | read | written | optimizer state | args, schedulers, RNG states | resharded |\n"
        "|---|---|---|---|---|---|---|\n";
    for (const Format format : drivers())
        out +=
            fmt::format("| {} | `{}` | yes | {} | {} | {} | {} |\n", format->title, format->name, written_text(*format),
                        mark(format->knows_optimizer), mark(format->keeps_values), mark(format->is_resharded));
    return out;
}

}  // namespace tpx::formats
