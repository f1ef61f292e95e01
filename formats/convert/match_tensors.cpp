// SPDX-License-Identifier: Apache-2.0
#include "formats/convert/match_tensors.hpp"

#include "formats/convert/canonical.hpp"
#include "formats/convert/canonical_pieces.hpp"
#include "lib/core/error.hpp"

#include <algorithm>
#include <unordered_map>

namespace tpx::formats {
namespace {

/// Numbers canonical tensors by name.
class NameNumbers {
public:
    std::uint32_t operator()(const std::string& name) {
        return numbers_.emplace(name, static_cast<std::uint32_t>(numbers_.size())).first->second;
    }
    std::optional<std::uint32_t> find(const std::string& name) const {
        const auto found = numbers_.find(name);
        return found == numbers_.end() ? std::nullopt : std::optional{found->second};
    }

private:
    std::unordered_map<std::string, std::uint32_t> numbers_;
};

}  // namespace

/// Each tensor of the draft is a canonical tensor itself. If padding differs, the canonical tensor is the part that
/// both sides have.
void match_by_name(const Source& source, Conversion& out) {
    const std::vector<Tensor>& from = source.checkpoint.catalogue.tensors;
    NameNumbers names;
    for (const Tensor& tensor : from) names(tensor.name);
    out.source_parts.resize(from.size());
    for (std::uint32_t t = 0; t < out.draft.tensors.size(); ++t) {
        const Tensor& target = out.draft.tensors[t];
        const auto copy = out.expressed.copies.find(target.name);
        const std::uint32_t s = names.find(copy == out.expressed.copies.end() ? target.name : copy->second).value();
        Part part = own_part(in_bytes(target));
        const Tensor stored = in_bytes(from[s]);
        for (int k = 0; k < part.shape.size(); ++k) part.shape[k] = std::min(part.shape[k], stored.shape[k]);
        out.source_tensors.push_back({target.name, stored.dtype, part.shape});
        out.target_tensors.push_back({target.name, in_bytes(target).dtype, part.shape});
        out.source_parts[s].push_back({part, t});
        out.target_parts.push_back({{part, t}});
    }
}

/// A part of the source may become several parts of the target.
void match_by_parts(const Source& source, Conversion& out) {
    NameNumbers names;
    std::unordered_multimap<std::string, std::uint32_t> wanted;  // by the canonical name in the source
    for (std::size_t t = 0; t < out.draft.tensors.size(); ++t) {
        const Tensor& target = out.draft.tensors[t];
        out.target_parts.emplace_back();
        for (Part& part : parts_of(out.expressed.reading, target, out.expressed.reading.meanings[t])) {
            const auto alias = out.expressed.aliases.find(part.name);
            const std::string& own = alias == out.expressed.aliases.end() ? part.name : alias->second;
            const std::uint32_t number = names(own);
            if (number == out.target_tensors.size()) {
                out.target_tensors.push_back({part.name, target.dtype, part.shape});
                const auto copy = out.expressed.copies.find(own);
                wanted.emplace(copy == out.expressed.copies.end() ? own : copy->second, number);
            }
            out.target_parts.back().push_back({std::move(part), number});
        }
    }
    out.source_tensors = out.target_tensors;
    const std::vector<Tensor>& from = source.checkpoint.catalogue.tensors;
    std::vector<bool> found(out.target_tensors.size(), false);
    out.source_parts.resize(from.size());
    for (std::size_t s : copies_last(source.reading)) {
        for (Part& part : parts_of(source.reading, from[s], source.reading.meanings[s])) {
            const auto [first, last] = wanted.equal_range(part.name);
            for (auto number = first; number != last; ++number) {
                const std::uint32_t n = number->second;
                if (found[n] && (part.repeat > 0 || is_copy(source.reading.meanings[s]))) continue;
                if (found[n]) throw failure("tensor '{}': '{}' is stored twice", from[s].name, part.name);
                found[n] = true;
                out.source_tensors[n] = {out.target_tensors[n].name, from[s].dtype, part.shape};
                out.source_parts[s].push_back({part, n});
            }
        }
    }
}

}  // namespace tpx::formats
