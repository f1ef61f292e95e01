// SPDX-License-Identifier: Apache-2.0
#include "cmd/verify/tensors_in_values.hpp"

#include "lib/core/dtype.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <string>
#include <utility>

namespace tpx::cli {
namespace {

using Difference = Comparison::Difference;

/// The text of each tensor that only `member` stores, as the values inside of which the other side has it.
std::map<std::string, std::string> texts_of_missing(const ComparedCheckpoint& member, char other,
                                                    const std::vector<Difference>& differences) {
    std::map<std::string, std::string> texts;
    for (const Difference& difference : differences)
        if (!difference.value && difference.lacking == other) texts.emplace(difference.name, "");
    const formats::CanonicalTensors& canonical = member.digested.canonical;
    for (std::size_t t = 0; t < canonical.tensors.size() && !texts.empty(); ++t) {
        const auto found = texts.find(canonical.stored_name(t));
        if (found == texts.end()) continue;
        const Tensor& tensor = canonical.tensors[t];
        found->second = fmt::format("tensor {} {} {}", name(tensor.dtype), to_string(tensor.shape),
                                    to_string(member.digested.digests[t]));
    }
    return texts;
}

}  // namespace

void match_tensors_in_values(const ComparedCheckpoint& a, const ComparedCheckpoint& b, Comparison& result) {
    for (const auto& [member, lacking] : {std::pair{&a, 'B'}, std::pair{&b, 'A'}}) {
        const char has = lacking == 'A' ? 'B' : 'A';
        const auto texts = texts_of_missing(*member, lacking, result.differences);
        for (const auto& [tensor, text] : texts) {
            const auto is_value = [&, &tensor = tensor, &text = text](const Difference& one) {
                return one.value && one.lacking == has && one.name == tensor && (has == 'A' ? one.b : one.a) == text;
            };
            if (std::ranges::none_of(result.differences, is_value)) continue;
            std::erase_if(result.differences, [&, &tensor = tensor](const Difference& one) {
                return is_value(one) || (!one.value && one.lacking == lacking && one.name == tensor);
            });
            ++result.compared;
        }
    }
}

}  // namespace tpx::cli
