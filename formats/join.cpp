// SPDX-License-Identifier: Apache-2.0
#include "formats/join.hpp"

#include "lib/core/error.hpp"

#include <algorithm>
#include <map>
#include <numeric>
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

/// Elements smaller than a byte cannot be told apart; as a whole, such a tensor is a row of bytes. Others stay what
/// they are.
Tensor in_bytes(const Tensor& tensor) {
    if (itemsize(tensor.dtype) > 0) return tensor;
    return {tensor.name, DType::u8, {volume(tensor.shape) * info(tensor.dtype).bits / 8}};
}

Piece in_bytes(const Tensor& tensor, Piece piece) {
    if (itemsize(tensor.dtype) > 0) return piece;
    if (piece.box != whole(tensor.shape))
        throw failure("tensor '{}': elements of {} bits ({}) cannot be cut", tensor.name, info(tensor.dtype).bits,
                      name(tensor.dtype));
    piece.box = whole(in_bytes(tensor).shape);
    piece.strides = {1};
    return piece;
}

/// The parts of a stored tensor by where they stand on its axes of layers and experts, on which each has one place. A
/// piece holds few of the many that a stack has.
class PartsByPlace {
public:
    PartsByPlace() = default;
    PartsByPlace(const std::vector<NumberedPart>& parts, int axes) : parts_{&parts} {
        for (int axis = 0; axis < axes; ++axis) {
            const bool spread = std::ranges::any_of(parts, [&](const NumberedPart& part) {
                return axis >= part.part.offset.size() || !part.part.view.empty() ||
                       std::ranges::find(part.part.axis, axis) != part.part.axis.end();
            });
            if (!spread) axes_.push_back(axis);
        }
        for (const NumberedPart& part : parts) by_place_[place(part)].push_back(&part);
    }

    /// Calls `each` for the parts that may lie in `box`, in their order.
    template <class Each>
    void for_each_in(const Box& box, Each&& each) const {
        if (!axes_.empty()) return descend(box, {}, each);
        for (const NumberedPart& part : *parts_) each(part);
    }

private:
    Tuple<Index> place(const NumberedPart& part) const {
        Tuple<Index> at;
        for (int axis : axes_) at.push_back(part.part.offset[axis]);
        return at;
    }

    template <class Each>
    void descend(const Box& box, Tuple<Index> at, Each&& each) const {
        if (at.size() == static_cast<int>(axes_.size())) {
            const auto found = by_place_.find(at);
            if (found == by_place_.end()) return;
            for (const NumberedPart* part : found->second) each(*part);
            return;
        }
        const Interval side = box[axes_[static_cast<std::size_t>(at.size())]];
        at.push_back(0);
        for (Index i = side.begin; i < side.end; ++i) {
            at[at.size() - 1] = i;
            descend(box, at, each);
        }
    }

    const std::vector<NumberedPart>* parts_ = nullptr;
    std::vector<int> axes_;
    std::map<Tuple<Index>, std::vector<const NumberedPart*>> by_place_;
};

/// A second copy that some files hold of a tensor.
bool is_copy(const Meaning& meaning) { return meaning.kind == Meaning::Kind::parameter && meaning.rule->alias(); }

/// The numbers of all stored tensors, those of copies behind all others.
std::vector<std::size_t> copies_last(const Reading& reading) {
    std::vector<std::size_t> order(reading.meanings.size());
    std::iota(order.begin(), order.end(), std::size_t{0});
    std::ranges::stable_partition(order, [&](std::size_t t) { return !is_copy(reading.meanings[t]); });
    return order;
}

}  // namespace

/// A tensor that keeps its name on both sides, or becomes a copy, is canonical itself; where padding differs, what both
/// sides have of it.
void join_by_name(const Source& source, Conversion& out) {
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

/// Tensors of different dialects are joined part by part. A part of the source may become several.
void join_by_parts(const Source& source, Conversion& out) {
    NameNumbers names;
    std::unordered_multimap<std::string, std::uint32_t> wanted;  // by the source's name
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
                if (found[n] && is_copy(source.reading.meanings[s])) continue;
                if (found[n]) throw failure("tensor '{}': '{}' is stored twice", from[s].name, part.name);
                found[n] = true;
                out.source_tensors[n] = {out.target_tensors[n].name, from[s].dtype, part.shape};
                out.source_parts[s].push_back({part, n});
            }
        }
    }
}

std::vector<Piece> canonical_pieces(std::span<const Tensor> tensors, std::span<const Piece> pieces,
                                    std::span<const std::vector<NumberedPart>> parts) {
    std::vector<PartsByPlace> places(tensors.size());
    for (std::size_t t = 0; t < tensors.size(); ++t) places[t] = PartsByPlace{parts[t], tensors[t].shape.size()};
    std::vector<Piece> canonical;
    for (const Piece& stored : pieces) {
        if (parts[stored.tensor].empty()) continue;
        const Tensor& tensor = tensors[stored.tensor];
        const Piece piece = in_bytes(tensor, stored);
        places[stored.tensor].for_each_in(stored.box, [&](const NumberedPart& part) {
            cut_out(part.part, piece, part.number, itemsize(in_bytes(tensor).dtype), canonical);
        });
    }
    return canonical;
}

void locate_all(Checkpoint& checkpoint) {
    std::vector<std::uint32_t> all(checkpoint.catalogue.pieces.size());
    std::iota(all.begin(), all.end(), 0u);
    locate(checkpoint, all);
}

Canonical canonical(Source& source) {
    locate_all(source.checkpoint);
    Canonical out;
    NameNumbers names;
    const Catalogue& from = source.checkpoint.catalogue;
    std::vector<std::vector<NumberedPart>> parts(from.tensors.size());
    for (std::size_t t : copies_last(source.reading)) {
        const Meaning& meaning = source.reading.meanings[t];
        const bool sub_byte = itemsize(from.tensors[t].dtype) == 0;
        for (Part& part : sub_byte ? std::vector{own_part(in_bytes(from.tensors[t]))}
                                   : parts_of(source.reading, from.tensors[t], meaning)) {
            std::uint32_t number = names(part.name);
            const bool copy = number < out.tensors.size() && is_copy(meaning);
            if (copy) number = names(part.name += copy_mark + from.tensors[t].name);
            if (number < out.tensors.size())
                throw failure("tensor '{}': '{}' is stored twice", from.tensors[t].name, part.name);
            out.tensors.push_back({part.name, in_bytes(from.tensors[t]).dtype, part.shape});
            out.stored_names.push_back(from.tensors[t].name);
            out.parts.push_back(part);
            out.roles.emplace_back(copy ? "copy" : meaning.kind == Meaning::Kind::extra ? "extra" : meaning.role);
            parts[t].push_back({std::move(part), number});
        }
    }
    out.pieces = canonical_pieces(from.tensors, from.pieces, parts);
    return out;
}

}  // namespace tpx::formats
