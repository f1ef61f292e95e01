// SPDX-License-Identifier: Apache-2.0
#include "formats/rules/rules_check.hpp"
#include "cmd/jobs/open_checkpoint.hpp"
#include "cmd/jobs/run_on_ranks.hpp"
#include "cmd/output/output.hpp"
#include "cmd/rules/rules.hpp"
#include "lib/core/unexpected.hpp"

#include <algorithm>
#include <string_view>

namespace tpx::cli {
namespace {

void print_list(std::string_view title, const std::vector<std::string>& names, Output& out) {
    constexpr std::size_t shown = 20;
    for (std::size_t k = 0; k < std::min(names.size(), shown); ++k)
        out.result("{:<10} {}\n", title, printable(names[k]));
    if (names.size() > shown) out.result("{:<10} and {} more\n", title, names.size() - shown);
}

}  // namespace

void run_rules_check(const RulesCheckOptions& options, Output& out) {
    if (!is_first_rank()) return;
    const std::vector<std::filesystem::path> others{options.rules.begin(), options.rules.end()};
    const formats::RulesCheck check = reading(options.checkpoint, [&] {
        return formats::check_rules(options.file, others, options.checkpoint, config_from_options(options));
    });
    if (out.json()) {
        out.object("tpx.rules-check/1", {{"family", check.family},
                                         {"dialect", check.dialect},
                                         {"tensors", check.tensors},
                                         {"explained", check.explained},
                                         {"unknown", check.unknown},
                                         {"missing", check.missing},
                                         {"unsized", check.unsized},
                                         {"fault", check.fault},
                                         {"passes", check.passes()}});
    } else {
        out.result("family     {}{}\n", check.family, check.dialect.empty() ? "" : ", " + check.dialect + " names");
        out.result("explained  {} of {} tensors\n", check.explained, check.tensors);
        print_list("unknown", check.unknown, out);
        print_list("missing", check.missing, out);
        for (const char letter : check.unsized) out.result("no size    factor {}\n", letter);
        if (!check.fault.empty()) out.result("fault      {}\n", printable(check.fault));
    }
    if (check.passes()) return;
    out.finish();
    throw ExitRequest{Exit::no};
}

}  // namespace tpx::cli
