// SPDX-License-Identifier: Apache-2.0
#include "formats/rules/rules_draft.hpp"

#include "formats/convert/canonical.hpp"
#include "lib/core/error.hpp"
#include "lib/layout/draft_family.hpp"
#include "lib/layout/nearest_family.hpp"

#include <algorithm>
#include <cctype>

namespace tpx::formats {
namespace {

/// A family name made from model_type; it differs from the names of known families.
std::string name_of(const Source& source) {
    const auto type = source.reading.config.find("model_type");
    std::string name = type == source.reading.config.end() ? "draft" : value_text(type->second);
    std::erase_if(name, [](unsigned char c) { return std::isalnum(c) == 0 && c != '_' && c != '-'; });
    if (name.empty()) name = "draft";
    while (source.families.find(name)) name += "-draft";
    return name;
}

/// The weights without optimizer state, which is named after them.
std::vector<Tensor> weights_of(const Source& source) {
    std::vector<Tensor> weights;
    const Checkpoint& checkpoint = source.checkpoint;
    for (std::size_t t = 0; t < checkpoint.catalogue.tensors.size(); ++t) {
        const Tensor& tensor = checkpoint.catalogue.tensors[t];
        const bool by_role = checkpoint.roles.empty() || checkpoint.roles[t] == Role::weight;
        const bool is_state = std::ranges::any_of(torch_roles(), [&](const RolePattern& pattern) {
            return wildcard_match(pattern.pattern, tensor.name).has_value();
        });
        if (by_role && !is_state) weights.push_back(tensor);
    }
    return weights;
}

/// What is wrong with a draft; empty if it explains all weights and all sizes are known.
std::string fault_of(const FamilyDraft& draft, const Source& source) {
    try {
        const Families families{std::vector{parse_family(draft.toml, "draft")}};
        Source judged{.checkpoint = source.checkpoint, .reading = {}, .layout = {}, .families = families};
        judged.reading = read(source.checkpoint.catalogue.tensors, families, source.reading.config);
        if (!judged.reading.family) return judged.reading.why_not;
        if (!judged.reading.complete) return "not all sizes are known";
        canonical(judged);
        return {};
    } catch (const Error& error) {
        return error.what();
    }
}

}  // namespace

std::string draft_rules(const Source& source) {
    const std::vector<Tensor> weights = weights_of(source);
    const std::string name = name_of(source);
    FamilyDraft draft = draft_family(name, weights, source.reading.config);
    if (const std::string fault = fault_of(draft, source); !fault.empty()) {
        draft = draft_family(name, weights, source.reading.config, false);
        draft.notes.push_back(
            fmt::format("tensor parallelism splits nothing, because a draft with splits failed: {}", fault));
        if (const std::string again = fault_of(draft, source); !again.empty())
            draft.notes.push_back(fmt::format("this draft does not explain the checkpoint yet: {}", again));
    }
    std::string text =
        "# Drafted by tpx rules suggest from names, shapes and config.json. Review which axis tp= splits, and the "
        "order\n"
        "# of the parts of fused tensors, against the model's code; see tpx-rules(5).\n";
    const auto nearest = nearest_family(weights, source.families);
    text += nearest ? fmt::format("# Nearest: {}.\n", nearest->describe()) : "# No known family is near.\n";
    for (const std::string& note : draft.notes) text += fmt::format("# {}\n", note);
    return text + draft.toml;
}

}  // namespace tpx::formats
