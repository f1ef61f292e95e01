// SPDX-License-Identifier: Apache-2.0
#include "formats/convert/rank_holdings.hpp"

#include "formats/convert/canonical_pieces.hpp"
#include "formats/convert/factor_groups.hpp"
#include "formats/driver.hpp"
#include "formats/state/roles.hpp"
#include "lib/core/error.hpp"
#include "lib/core/units.hpp"
#include "lib/layout/shard_map.hpp"

#include <algorithm>
#include <numeric>
#include <unordered_map>
#include <unordered_set>

namespace tpx::formats {
namespace {

bool is_state(Role role) { return role != Role::weight && role != Role::extra; }

/// The exact pieces of stored tensors that ranks hold, for frameworks that do not split them evenly along an axis.
struct ExactPieces {
    std::vector<Piece> pieces;
    bool of_weights = false;  ///< `pieces` include weights, not only optimizer state

    bool include(Role role) const { return is_state(role) || (of_weights && role == Role::weight); }
};

/// Computes from a ShardMap what each rank holds, as pieces of canonical tensors. Tensor, pipeline, expert and FSDP
/// parallelism split stored tensors; ZeRO splits the canonical tensors in their shards, unless run() gets `exact`
/// pieces.
class Expansion {
public:
    Expansion(const Reading& reading, std::span<const Tensor> tensors, std::span<const std::vector<NumberedPart>> parts,
              const Layout& layout, Format format)
        : reading_{reading},
          tensors_{tensors},
          parts_{parts},
          map_{layout, cutting_of(format),
               layout.pp > 1 ? stages_of_layers(layout, layers(reading, tensors)) : std::vector<int>{}} {}

    std::vector<Piece> run(std::span<const Role> roles, std::optional<ExactPieces> exact) {
        std::vector<Piece> whole_shards = exact ? std::move(exact->pieces) : std::vector<Piece>{};
        for (std::uint32_t t = 0; t < tensors_.size(); ++t) {
            if (parts_[t].empty() || (exact && exact->include(roles[t]))) continue;
            const TensorForm form = form_of_tensor(t);
            const Sharing sharing = sharing_of(map_.layout(), is_state(roles[t]));
            const bool zero = sharing == Sharing::zero && !form.replicated;
            const Sharing stored = zero ? Sharing::none : sharing;
            for (const Shard& shard : map_.shards(form, stored)) {
                const std::vector<int> ranks = map_.ranks(shard, stored);
                if (zero && !shard.box.empty())
                    share(t, form, shard, ranks);
                else
                    for (int rank : ranks) whole_shards.push_back(piece(t, shard.box, rank));
            }
        }
        std::vector<Piece> held = canonical_pieces(tensors_, whole_shards, parts_);
        held.insert(held.end(), shared_.begin(), shared_.end());
        return held;
    }

private:
    static Piece piece(std::uint32_t tensor, const Box& box, int rank) {
        return {.tensor = tensor, .box = box, .strides = row_major(sizes(box)), .rank = rank};
    }

    TensorForm form_of_tensor(std::uint32_t t) const {
        TensorForm form = form_of(reading_, tensors_[t], reading_.meanings[t]);
        if (on_both_ends(t)) form.first = form.last = true;
        return form;
    }

    /// Whether both the first and the last stage have the tensor: an embedding that is also the output layer or is used
    /// for multi-token prediction.
    bool on_both_ends(std::uint32_t t) const {
        const Meaning& meaning = reading_.meanings[t];
        if (map_.layout().pp == 1 || meaning.kind != Meaning::Kind::parameter) return false;
        const Family& family = *reading_.family;
        const CanonicalTensor& tensor = family.tensor(meaning.rule->expression.parts[0]);
        const auto is_output = [&](const auto& other) { return other.second.last && other.second.tie == tensor.name; };
        const bool tied = reading_.tied && std::ranges::any_of(family.tensors, is_output);
        const bool predicts = tensor.mtp && reading_.dims['l'].value_or(0) > reading_.dims['L'].value_or(0);
        return tensor.first && (tied || (predicts && family.dims.contains('L')));
    }

    /// How many leading axes of a canonical tensor with `axes` axes are layer and expert axes: 0 unless the tensor
    /// keeps its name, because then the canonical tensor is the stored one.
    static int index_axes(const TensorForm& form, int axes) {
        return axes == form.shape.size() ? (form.layer_axis >= 0 ? 1 : 0) + (form.expert_axis >= 0 ? 1 : 0) : 0;
    }

    /// The end of the rows of `shard` on an axis of a canonical tensor, whose own rows end at `end`. Greater than `end`
    /// if the stored tensor is padded, which only tensors with a single part are.
    Index padded_end(std::uint32_t t, const Shard& shard, int axis, Index end) const {
        const Part& part = parts_[t].front().part;
        if (parts_[t].size() != 1 || !part.view.empty() || part.axis[axis] < 0) return end;
        const int stored = part.axis[axis];
        const bool plain = part.step[axis] == 1 && part.offset[stored] == 0 && end == part.shape[axis];
        const bool alone = std::ranges::count(part.axis, stored) == 1;
        return plain && alone ? std::max(end, shard.box[stored].end) : end;
    }

    /// Splits the shard among `ranks`, which hold the same parameters.
    void share(std::uint32_t t, const TensorForm& form, const Shard& shard, std::span<const int> ranks) {
        const Grid grid = grid_of(map_.layout(), shard.of_experts);
        const int count = grid.replicas();
        for (const Piece& whole : canonical_pieces(tensors_, std::vector{piece(t, shard.box, 0)}, parts_)) {
            const FactorGroups groups{factors(t, whole.tensor, whole.box.size()), whole.box};
            const int axis = map_.zero_axis(groups.sizes(), index_axes(form, whole.box.size()), count);
            for (int rank : ranks) {
                if (axis < 0) {
                    shared_.push_back(piece(whole.tensor, whole.box, rank));
                    continue;
                }
                const int first = groups.first_factor(axis);
                const Index rows = groups.sizes()[axis];
                const Index padding = padded_end(t, shard, first, whole.box[first].end) - whole.box[first].end;
                const Interval own = intersect(chunk({0, rows + padding}, count, grid.replica(rank)), {0, rows});
                if (own.empty()) continue;
                for (const Box& box : groups.boxes(axis, own)) shared_.push_back(piece(whole.tensor, box, rank));
            }
        }
    }

    /// For each axis of the model's tensor: how many axes of the canonical tensor, which has one for each factor, it
    /// combines.
    std::vector<int> factors(std::uint32_t t, std::uint32_t canonical, int axes) const {
        std::vector<int> counts;
        const auto part = std::ranges::find(parts_[t], canonical, &NumberedPart::number);
        const std::string& name = part->part.name;
        if (reading_.family && reading_.meanings[t].kind == Meaning::Kind::parameter) {
            const auto known = reading_.family->tensors.find(name.substr(name.rfind('.') + 1));
            for (const Axis& axis :
                 known == reading_.family->tensors.end() ? std::vector<Axis>{} : known->second.axes) {
                if (!known->second.is_index(axis.front().letter)) counts.push_back(static_cast<int>(axis.size()));
            }
        }
        if (std::accumulate(counts.begin(), counts.end(), 0) != axes) counts.assign(static_cast<std::size_t>(axes), 1);
        return counts;
    }

    const Reading& reading_;
    std::span<const Tensor> tensors_;
    std::span<const std::vector<NumberedPart>> parts_;
    ShardMap map_;
    std::vector<Piece> shared_;
};

std::vector<Role> roles_of_source(const Source& source) {
    std::vector<Role> roles;
    for (std::size_t t = 0; t < source.reading.meanings.size(); ++t)
        roles.push_back(source.reading.meanings[t].kind == Meaning::Kind::extra ? Role::extra : role_of(source, t));
    return roles;
}

/// For each tensor of the draft, which may lack some: its number in `conversion.expressed`.
std::vector<std::size_t> numbers_of_draft(const Conversion& conversion) {
    std::unordered_map<std::string_view, std::size_t> numbers;
    const std::vector<Tensor>& expressed = conversion.expressed.tensors;
    for (std::size_t t = 0; t < expressed.size(); ++t) numbers.emplace(expressed[t].name, t);
    std::vector<std::size_t> found;
    for (const Tensor& tensor : conversion.draft.tensors) found.push_back(numbers.at(tensor.name));
    return found;
}

/// The optimizer state of each rank, if the driver knows how its framework splits it under ZeRO. Otherwise unset, with
/// a warning in `note` if ZeRO splits optimizer state.
std::optional<ExactPieces> exact_pieces(Format format, const Content& content, const Config& args,
                                        std::span<const Role> roles, std::string& note) {
    if (content.layout.zero == 0) return std::nullopt;
    if (format->has_flat_partitions)
        return ExactPieces{format->state_shares(content, args, roles), content.layout.zero == 3};
    if (std::ranges::none_of(roles, is_state)) return std::nullopt;
    std::string why;
    if (format->state_shares != nullptr && content.layout.zero == 1) {
        try {
            return ExactPieces{format->state_shares(content, args, roles)};
        } catch (const Error& error) {
            why = fmt::format(" (reason: {})", error.what());
        }
    }
    note = fmt::format(
        "byte counts of optimizer state under ZeRO are approximate: each tensor is assumed to be split evenly along "
        "its "
        "first axis, but some frameworks split flat buffers instead{}",
        why);
    return std::nullopt;
}

/// Rejects tensor and pipeline parallelism for a universal checkpoint of an unknown family: no rules define how its
/// tensors are split.
void check_universal(const Reading& reading, const Layout& layout) {
    if (reading.family || (layout.tp == 1 && layout.pp == 1)) return;
    throw Error{
        Exit::usage,
        "layout: {}: no rules define how tensors of this universal checkpoint are split ({}), so bytes cannot be "
        "counted; plan from or to DeepSpeed's own format (--format deepspeed)",
        to_string(layout), reading.why_not};
}

}  // namespace

std::vector<Piece> written_pieces(const Conversion& conversion) {
    std::vector<Piece> held = conversion.source_pieces;
    for (Piece& piece : held) piece.rank = std::max(piece.rank, 0);
    return held;
}

RankHoldings rank_holdings(const Content& content, std::span<const std::vector<NumberedPart>> parts,
                           std::span<const Role> roles, Format format, const Config& args) {
    RankHoldings held;
    auto exact = exact_pieces(format, content, args, roles, held.note);
    Expansion expansion{*content.reading, content.tensors, parts, content.layout, format};
    held.pieces = expansion.run(roles, std::move(exact));
    return held;
}

RankHoldings held_pieces(const Source& source, const Conversion& conversion, const Layout& from) {
    const Catalogue& catalogue = source.checkpoint.catalogue;
    const Format format = source.checkpoint.format;
    const std::vector<Role> roles = roles_of_source(source);
    if (format->has_flat_partitions)
        return {
            canonical_pieces(catalogue.tensors, format->with_replicas(catalogue.tensors, catalogue.pieces, roles, from),
                             conversion.source_parts),
            ""};
    if (format->has_param_groups) check_universal(source.reading, from);
    return rank_holdings({.tensors = catalogue.tensors, .layout = from, .reading = &source.reading},
                         conversion.source_parts, roles, format, source.reading.config);
}

RankHoldings needed_pieces(const Source& source, const Conversion& conversion, const Target& target) {
    const std::vector<Role> roles = roles_of_draft(source, conversion);
    const Draft& draft = conversion.draft;
    const Reading& reading = conversion.expressed.reading;
    if (target.format->has_flat_partitions) {
        Layout layout = target.layout;
        if (layout.zero == 0 && source.layout) layout.zero = source.layout->zero;
        if (source.layout) layout.ep = kept_expert_ranks(layout, source.layout->ep);
        return {
            canonical_pieces(draft.tensors, target.format->with_replicas(draft.tensors, draft.pieces, roles, layout),
                             conversion.target_parts),
            ""};
    }
    if (target.format->has_param_groups) check_universal(reading, target.layout);
    Reading stored = reading;
    stored.meanings.clear();
    for (std::size_t t : numbers_of_draft(conversion)) stored.meanings.push_back(reading.meanings[t]);
    Config args = conversion.content.args;
    args.insert(source.reading.config.begin(), source.reading.config.end());
    return rank_holdings({.tensors = draft.tensors, .layout = target.layout, .reading = &stored},
                         conversion.target_parts, roles, target.format, args);
}

std::vector<Role> roles_of_draft(const Source& source, const Conversion& conversion) {
    const std::vector<Meaning>& meanings = conversion.expressed.reading.meanings;
    // If tensors keep their names, use the roles that the checkpoint records, if any.
    const std::vector<Role>& recorded = source.checkpoint.roles;
    const bool same = !recorded.empty() && meanings.size() == recorded.size() && !conversion.dialect;
    std::vector<Role> roles;
    for (std::size_t t : numbers_of_draft(conversion)) {
        const bool extra = meanings[t].kind == Meaning::Kind::extra;
        roles.emplace_back(extra ? Role::extra : same ? recorded[t] : meanings[t].role);
    }
    return roles;
}

std::string missing_ranks_warning(const Source& source) {
    const auto count_writers = source.checkpoint.format->count_writers;
    if (!source.layout || count_writers == nullptr) return "";
    const int ranks = count_writers(source.checkpoint.catalogue.directory);
    const Layout& layout = *source.layout;
    if (ranks <= layout.ranks()) return "";
    std::string text = fmt::format("{} ranks wrote this checkpoint, but its boxes show {} ({} rank{})", ranks,
                                   to_string(layout), layout.ranks(), layout.ranks() == 1 ? "" : "s");
    Layout example = layout;
    example.dp = ranks / (layout.tp * layout.pp * layout.cp);
    if (example.ranks() == ranks && example.dp % layout.fsdp == 0)
        text += fmt::format("; it may be {}, with replicas that were not stored", to_string(example));
    return text;
}

std::string uncounted_tensors_note(const Source& source, const Conversion& conversion, const Target& target) {
    if (!target.format->has_flat_partitions || !source.checkpoint.format->has_flat_partitions) return "";
    std::unordered_set<std::string_view> stored;
    for (const Tensor& tensor : conversion.draft.tensors) stored.insert(tensor.name);
    const std::vector<Tensor>& tensors = source.checkpoint.catalogue.tensors;
    std::uint64_t count = 0, bytes = 0;
    for (std::size_t t = 0; t < tensors.size(); ++t) {
        if (source.checkpoint.roles[t] != Role::weight || stored.contains(tensors[t].name)) continue;
        ++count;
        bytes += static_cast<std::uint64_t>(volume(tensors[t].shape) * itemsize(tensors[t].dtype));
    }
    if (count == 0) return "";
    return fmt::format("not counted: {} weights ({}) whose files are copied unchanged", count,
                       format_bytes(static_cast<double>(bytes)));
}

}  // namespace tpx::formats
