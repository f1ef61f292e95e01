// SPDX-License-Identifier: Apache-2.0
#include "formats/convert/canonical.hpp"

#include "formats/convert/canonical_pieces.hpp"
#include "lib/core/error.hpp"

#include <algorithm>
#include <functional>
#include <numeric>
#include <ranges>
#include <unordered_set>

namespace tpx::formats {
namespace {

/// The canonical tensors in stored tensor `t`.
std::vector<Part> parts_of_stored(const Source& source, std::size_t t) {
    const Tensor& tensor = source.checkpoint.catalogue.tensors[t];
    if (itemsize(tensor.dtype) == 0) return {own_part(in_bytes(tensor))};
    return parts_of(source.reading, tensor, source.reading.meanings[t]);
}

/// A set of tensor numbers with lookup by name; does not copy the names.
class TensorNumbers {
public:
    explicit TensorNumbers(const std::vector<Tensor>& tensors) : numbers_{0, Hash{tensors}, Equal{tensors}} {}
    bool contains(std::string_view name) const { return numbers_.contains(name); }
    void add(std::uint32_t number) { numbers_.insert(number); }
    void reserve(std::size_t count) { numbers_.reserve(count); }

private:
    struct Hash {
        using is_transparent = void;
        const std::vector<Tensor>& tensors;
        std::size_t operator()(std::string_view name) const { return std::hash<std::string_view>{}(name); }
        std::size_t operator()(std::uint32_t number) const { return (*this)(tensors[number].name); }
    };
    struct Equal {
        using is_transparent = void;
        const std::vector<Tensor>& tensors;
        std::string_view text(std::string_view name) const { return name; }
        std::string_view text(std::uint32_t number) const { return tensors[number].name; }
        bool operator()(const auto& a, const auto& b) const { return text(a) == text(b); }
    };
    std::unordered_set<std::uint32_t, Hash, Equal> numbers_;
};

/// The pieces of a catalogue by tensor.
class PiecesByTensor {
public:
    explicit PiecesByTensor(const Catalogue& catalogue) : pieces_{catalogue.pieces}, order_(pieces_.size()) {
        std::iota(order_.begin(), order_.end(), 0u);
        std::ranges::stable_sort(order_, {}, [&](std::uint32_t p) { return pieces_[p].tensor; });
    }
    auto of(std::uint32_t tensor) const {
        const auto range =
            std::ranges::equal_range(order_, tensor, {}, [this](std::uint32_t p) { return pieces_[p].tensor; });
        return range | std::views::transform([this](std::uint32_t p) -> const Piece& { return pieces_[p]; });
    }

private:
    const std::vector<Piece>& pieces_;
    std::vector<std::uint32_t> order_;
};

}  // namespace

bool is_copy(const Meaning& meaning) { return meaning.kind == Meaning::Kind::parameter && meaning.rule->alias(); }

std::vector<std::size_t> copies_last(const Reading& reading) {
    std::vector<std::size_t> order(reading.meanings.size());
    std::iota(order.begin(), order.end(), std::size_t{0});
    std::ranges::stable_partition(order, [&](std::size_t t) { return !is_copy(reading.meanings[t]); });
    return order;
}

const std::string& CanonicalTensors::stored_name(std::size_t t) const {
    return source->checkpoint.catalogue.tensors[stored[t]].name;
}

Tuple<Index> PartFinder::stored_index(const CanonicalTensors& canonical, std::size_t t, const Tuple<Index>& x) {
    const std::pair key{canonical.source, canonical.stored[t]};
    if (key != last_) parts_ = parts_of_stored(*key.first, key.second);
    last_ = key;
    return tpx::stored_index(parts_[canonical.within[t]], x);
}

void for_each_canonical(const Source& source, const std::function<void(const Part& part, std::size_t pieces)>& visit) {
    const Catalogue& from = source.checkpoint.catalogue;
    const PiecesByTensor pieces{from};
    std::vector<Piece> cut;
    std::vector<std::size_t> counts;
    for (std::uint32_t t = 0; t < from.tensors.size(); ++t) {
        std::vector<NumberedPart> parts;
        for (Part& part : parts_of_stored(source, t))
            parts.push_back({std::move(part), static_cast<std::uint32_t>(parts.size())});
        counts.assign(parts.size(), 0);
        PieceCutter cutter;
        for (const Piece& piece : pieces.of(t)) {
            cut.clear();
            cutter.cut(from.tensors[t], piece, parts, cut);
            for (const Piece& own : cut) ++counts[own.tensor];
        }
        for (const NumberedPart& part : parts) visit(part.part, counts[part.number]);
    }
}

/// Splits stored tensors one at a time, so that only the parts of one are in memory.
CanonicalTensors canonical(Source& source) {
    locate_all(source.checkpoint);
    const Catalogue& from = source.checkpoint.catalogue;
    CanonicalTensors out{.source = &source};
    out.tensors.reserve(from.tensors.size());
    out.pieces.reserve(from.pieces.size());
    TensorNumbers numbers{out.tensors};
    numbers.reserve(from.tensors.size());
    const PiecesByTensor pieces{from};
    for (std::size_t t : copies_last(source.reading)) {
        const Meaning& meaning = source.reading.meanings[t];
        const Tensor& stored = from.tensors[t];
        std::vector<NumberedPart> parts;
        for (Part& part : parts_of_stored(source, t)) {
            const bool copy = (part.repeat > 0 || is_copy(meaning)) && numbers.contains(part.name);
            if (copy) part.name += copy_separator + stored.name;
            if (copy && part.repeat > 0) part.name += fmt::format("[{}]", part.repeat);
            if (numbers.contains(part.name)) throw failure("tensor '{}': '{}' is stored twice", stored.name, part.name);
            const auto number = static_cast<std::uint32_t>(out.tensors.size());
            out.tensors.push_back({part.name, in_bytes(stored).dtype, part.shape});
            numbers.add(number);
            out.stored.push_back(static_cast<std::uint32_t>(t));
            out.within.push_back(static_cast<std::uint32_t>(parts.size()));
            out.roles.push_back(copy ? Role::copy : meaning.kind == Meaning::Kind::extra ? Role::extra : meaning.role);
            parts.push_back({std::move(part), number});
        }
        PieceCutter cutter;
        for (const Piece& piece : pieces.of(static_cast<std::uint32_t>(t)))
            cutter.cut(stored, piece, parts, out.pieces);
    }
    return out;
}

}  // namespace tpx::formats
