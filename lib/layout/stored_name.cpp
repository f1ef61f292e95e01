// SPDX-License-Identifier: Apache-2.0
#include "lib/layout/stored_name.hpp"

#include "lib/layout/dims.hpp"

#include <algorithm>
#include <optional>
#include <utility>

namespace tpx {

std::string stored_name(const Reading& reading, const std::string& tensor, NameIndices indices) {
    const auto name_by = [&](const Rule& rule) -> std::optional<std::string> {
        const auto& parts = rule.expression.parts;
        if (rule.alias() || std::ranges::find(parts, tensor) == parts.end()) return std::nullopt;
        const auto numbers = numbers_in(rule.name, indices, reading.dims);
        return numbers ? std::optional{rule.name.name(*numbers, reading.prefixed)} : std::nullopt;
    };
    // Rules that stored tensors use come first.
    for (const Meaning& meaning : reading.meanings)
        if (meaning.kind == Meaning::Kind::parameter)
            if (auto name = name_by(*meaning.rule)) return *std::move(name);
    for (const Rule& rule : reading.dialect->rules)
        if (auto name = name_by(rule)) return *std::move(name);
    return tensor;
}

}  // namespace tpx
