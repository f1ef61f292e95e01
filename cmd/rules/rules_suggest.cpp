// SPDX-License-Identifier: Apache-2.0
#include "cmd/jobs/open_checkpoint.hpp"
#include "cmd/jobs/run_on_ranks.hpp"
#include "cmd/output/output.hpp"
#include "cmd/output/output_file.hpp"
#include "cmd/rules/rules.hpp"
#include "formats/adapters/adapter.hpp"
#include "formats/rules/rules_draft.hpp"
#include "lib/core/error.hpp"
#include "lib/core/read_record.hpp"
#include "lib/core/write_file.hpp"

namespace tpx::cli {

void run_rules_suggest(const RulesSuggestOptions& options, Output& out) {
    if (!is_first_rank()) return;
    const ReadRecord record;
    const OpenedCheckpoint opened = open_checkpoint(options.checkpoint, options);
    const Reading& reading = opened.source.reading;
    if (reading.family)
        throw failure("{}: the model is of family '{}' ({} names); no rules are needed", options.checkpoint,
                      reading.family->name, reading.dialect->name);
    if (formats::is_adapter(opened.source.checkpoint))
        throw failure("{}: is a LoRA adapter; run tpx rules suggest on its base model", options.checkpoint);
    const std::string text = formats::draft_rules(opened.source);
    check_outputs_apart({{"--output", options.output}}, record);
    if (!options.output.empty()) write_file(options.output, text);
    if (out.json())
        out.object("tpx.rules-suggest/1", {{"rules", text}, {"output", options.output}});
    else if (options.output.empty())
        out.data("{}", text);
    else
        out.result("wrote {}; check it with: tpx rules check {} {}\n", printable(options.output),
                   printable(options.output), options.checkpoint);
}

}  // namespace tpx::cli
