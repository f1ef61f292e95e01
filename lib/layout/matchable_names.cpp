// SPDX-License-Identifier: Apache-2.0
#include "lib/layout/matchable_names.hpp"

#include <algorithm>

namespace tpx {
namespace {

/// FNV-1a, which gets one byte at a time.
class Hash {
public:
    void add(char byte) { value_ = (value_ ^ static_cast<unsigned char>(byte)) * 16777619U; }
    std::uint32_t value() const { return value_; }

private:
    std::uint32_t value_ = 2166136261U;
};

std::uint32_t hash_of(std::string_view text) {
    Hash hash;
    for (const char byte : text) hash.add(byte);
    return hash.value();
}

}  // namespace

std::vector<std::uint32_t> hash_rule_names(const Family& family) {
    std::vector<std::uint32_t> hashes;
    for (const Dialect& dialect : family.dialects) {
        for (const Rule& rule : dialect.rules) {
            for (const std::string& name : rule.name.folded()) hashes.push_back(hash_of(name));
        }
    }
    std::ranges::sort(hashes);
    const auto repeated = std::ranges::unique(hashes);
    hashes.erase(repeated.begin(), repeated.end());
    return hashes;
}

MatchableNames::MatchableNames(std::span<const std::string> names) {
    for (const std::string_view name : names) {
        hashes_.insert(hash_of(name));
        hashes_.insert(hash_of(name.substr(name.find('.') + 1)));
        if (name.starts_with("optim")) add_component_sequences(name);
    }
}

void MatchableNames::add_component_sequences(std::string_view name) {
    for (std::size_t begin = 0; begin < name.size(); ++begin) {
        if (begin > 0 && name[begin - 1] != '.') continue;
        Hash hash;
        for (std::size_t end = begin; end < name.size(); ++end) {
            if (name[end] == '.') hashes_.insert(hash.value());
            hash.add(name[end]);
        }
        hashes_.insert(hash.value());
    }
}

bool MatchableNames::may_match(std::span<const std::uint32_t> hashes) const {
    return std::ranges::any_of(hashes, [&](std::uint32_t hash) { return hashes_.contains(hash); });
}

}  // namespace tpx
