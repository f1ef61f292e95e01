// SPDX-License-Identifier: Apache-2.0
#include "cmd/inspect/inspect.hpp"

#include "cmd/inspect/inspect_html.hpp"
#include "cmd/inspect/inspect_where.hpp"
#include "cmd/inspect/inspection.hpp"
#include "cmd/inspect/print_state.hpp"
#include "cmd/inspect/unfinished_output.hpp"
#include "cmd/jobs/keeper_client.hpp"
#include "cmd/jobs/open_checkpoint.hpp"
#include "cmd/jobs/run_on_ranks.hpp"
#include "cmd/output/output.hpp"
#include "cmd/output/output_file.hpp"
#include "lib/core/error.hpp"
#include "lib/core/read_record.hpp"
#include "lib/core/write_file.hpp"

#include <filesystem>
#include <utility>

namespace tpx::cli {
namespace {

void write_html(const InspectOptions& options, const formats::Source& source, const Inspection& found) {
    nlohmann::ordered_json page = inspect_json(source, found, true);
    page["path"] = is_held(options.checkpoint)
                       ? options.checkpoint
                       : std::filesystem::absolute(options.checkpoint).lexically_normal().string();
    write_file(options.html, inspect_html(std::move(page), source.checkpoint.catalogue, found.holes));
}

}  // namespace

void run_inspect(const InspectOptions& options, Output& out) {
    if (!is_first_rank()) return;
    if (print_unfinished(options.checkpoint, out)) {
        if (!options.html.empty()) out.note("--html {}: not written, because the output is unfinished", options.html);
        out.finish();
        throw ExitRequest{Exit::no};
    }
    const ReadRecord record;
    OpenedCheckpoint opened = open_checkpoint(options.checkpoint, options);
    const formats::Source& source = opened.source;
    if (!options.where.empty()) return print_where(opened.source, options.where, out);
    if (options.state) return print_state(source.checkpoint, formats::read_state(source.checkpoint), out);
    const Inspection found = inspect(opened, options.checkpoint);
    for (const auto* notes : {&source.checkpoint.notes, &source.checkpoint.warnings})
        for (const std::string& note : *notes) out.note("{}", note);
    if (!options.html.empty()) {
        check_outputs_apart({{"--html", options.html}}, record);
        write_html(options, source, found);
    }
    if (out.json())
        out.object("tpx.inspect/1", inspect_json(source, found, options.tensors));
    else
        print_inspection(source, found, options.tensors, out);
}

}  // namespace tpx::cli
