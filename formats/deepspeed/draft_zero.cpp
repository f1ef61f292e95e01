// SPDX-License-Identifier: Apache-2.0
#include "formats/deepspeed/deepspeed.hpp"
#include "formats/deepspeed/grid.hpp"
#include "formats/deepspeed/optimizer.hpp"
#include "formats/deepspeed/optimizer_tree.hpp"
#include "formats/deepspeed/regroup.hpp"
#include "formats/deepspeed/step_draft.hpp"
#include "formats/torch/tensor_value.hpp"
#include "lib/core/error.hpp"

#include <algorithm>

namespace tpx::formats {
namespace {

using namespace deepspeed;
using torch::Document;
using torch::Entry;
using torch::Kind;
using torch::Value;
namespace fs = std::filesystem;

/// "zero_pp_rank_0_mp_rank_00_..." for data rank `d`.
fs::path of_rank(const fs::path& first, int d) {
    constexpr std::string_view zero = "zero_pp_rank_0_";
    std::string name = first.filename().string();
    const auto at = name.find(zero);
    if (at == name.npos) throw failure("{}: is not of data rank 0", first.string());
    return name.replace(at, zero.size(), fmt::format("zero_pp_rank_{}_", d));
}

class ZeroDraft {
public:
    ZeroDraft(const Content& content, const DeepSpeedStep& source)
        : layout_{content.layout},
          old_layout_{*content.source->layout},
          grid_{read_grid(source.step)},
          folder_{source.step.filename()},
          draft_{content} {}

    Draft make() {
        check();
        for (int mp = 0; mp < static_cast<int>(grid_.models.size()); ++mp) {
            in_context([&] { return grid_.models[mp].path.string(); },
                       [&] {
                           find_groups(mp);
                           for (int d = 0; d < (grid_.zero3 ? layout_.dp : 1); ++d) add_model(mp, d);
                       });
            const fs::path& path = grid_.files.optimizers.at({mp, 0});
            const torch::Archive old = torch::Archive::open(path);
            in_context([&] { return path.string(); },
                       [&] {
                           for (int d = 0; d < layout_.dp; ++d)
                               grid_.zero3 ? add_subgroups(old, path, mp, d) : add_partitions(old, path, mp, d);
                       });
        }
        for (const auto& [key, path] : grid_.files.layers) draft_.add_copy(folder_ / path.filename(), path);
        for (const auto& [key, path] : grid_.files.experts) draft_.add_copy(folder_ / path.filename(), path);
        draft_.add_text("latest", folder_.string());
        return draft_.finish();
    }

private:
    void check() {
        if (grid_.files.optimizers.empty()) throw failure("there is no ZeRO state to partition anew");
        if (layout_.tp != grid_.tp || layout_.pp != grid_.pp)
            throw Error{Exit::usage,
                        "layout: a DeepSpeed checkpoint keeps its tp={} and pp={} when it stays one; --format "
                        "universal makes one that DeepSpeed loads under others",
                        grid_.tp, grid_.pp};
        if (layout_.cp > 1 || layout_.ep > 1 || layout_.vpp > 1 || layout_.fsdp > 1)
            throw Error{Exit::usage, "layout: of a DeepSpeed checkpoint only dp and zero can change"};
        if (layout_.zero == 0) layout_.zero = old_layout_.zero;
        if ((layout_.zero == 3) != grid_.zero3 || layout_.zero > 3)
            throw Error{Exit::usage, "layout: zero={} cannot be made of zero={}: {}", layout_.zero, old_layout_.zero,
                        "only stages 1 and 2 have files alike"};
    }

    // Groups of ZeRO 1 and 2

    /// The groups of a model-parallel rank for the new number of data ranks.
    void find_groups(int mp) {
        const ModelFile& model = grid_.models[mp];
        groups_ = model.groups;
        counts_.assign(groups_.size(), layout_.dp);
        gaps_.assign(groups_.size(), {});
        const torch::Archive first = torch::Archive::open(grid_.files.optimizers.at({mp, 0}));
        const Value optimizer = first.root().at("optimizer_state_dict");
        if (grid_.zero3) return find_subgroups(model, optimizer);
        if (layout_.zero != old_layout_.zero && !optimizer.find("zero_stage"))
            throw Error{Exit::usage, "layout: BF16_Optimizer's state cannot become that of zero={}", layout_.zero};
        const Value count = optimizer.at("partition_count");
        const auto paddings = optimizer.find("param_alignment_paddings");
        for (std::size_t g = 0; g < groups_.size(); ++g) {
            const auto old = static_cast<int>(count.is(Kind::integer) ? count.as_int() : count.items()[g].as_int());
            const int experts = grid_.dp / old;
            if (layout_.dp % experts != 0)
                throw Error{Exit::usage, "layout: dp={} is no multiple of the {} expert ranks", layout_.dp, experts};
            counts_[g] = layout_.dp / experts;
            if (paddings && !paddings->is_none())
                for (const Value gap : paddings->items()[g].items()) gaps_[g].push_back(gap.as_int());
            if (is_round_robin()) reorder(model, g, old);
        }
    }

    /// Where sub-groups end depends on the number of ranks.
    void find_subgroups(const ModelFile& model, Value optimizer) {
        constexpr Index usual = 1'000'000'000;
        const auto given = model.zero_setting("sub_group_size");
        Index largest = usual;
        if (given && given->is(Kind::integer)) largest = given->as_int();
        if (given && given->is(Kind::real)) largest = static_cast<Index>(std::clamp(given->as_real(), 0.0, 1e18));
        std::vector<std::size_t> counts;
        std::int64_t next = 0;
        for (const Value group : optimizer.at("optimizer_state_dict").at("param_groups").items()) {
            const auto numbers = group.at("params").items();
            counts.push_back(numbers.size());
            for (const Value number : numbers)
                if (number.as_int() != next++) throw failure("param_groups number sub-groups out of order");
        }
        cut_ = regroup(model.groups, counts, largest, grid_.dp, layout_.dp);
        groups_ = cut_.groups;
    }

    bool is_round_robin() const {
        const auto setting = grid_.models[0].zero_setting("round_robin_gradients");
        return setting && setting->is(Kind::boolean) && setting->as_bool();
    }

    void reorder(const ModelFile& model, std::size_t g, int old) {
        if (std::ranges::any_of(gaps_[g], [](Index gap) { return gap > 0; }))
            throw failure("round-robin partitions with alignment gaps cannot be cut anew");
        std::vector<std::string> names;
        for (const Entry& entry : model.root().at("module").entries()) names.emplace_back(entry.key.as_string());
        groups_[g] = deal_again(groups_[g], names, old, counts_[g]);
    }

    PartitionView view_of(int d) const {
        PartitionView view{.groups = groups_, .stage = layout_.zero};
        for (std::size_t g = 0; g < groups_.size(); ++g) {
            view.layouts.push_back(lay_group(numels(groups_[g]), gaps_[g], counts_[g]));
            view.partition.push_back(d / (layout_.dp / counts_[g]));
        }
        return view;
    }

    void add_partitions(const torch::Archive& old, const fs::path& path, int mp, int d) {
        Document document;
        const PartitionView view = view_of(d);
        const NewOptimizer made = repartition(old, view, document);
        const StepDraft::Placed placed = draft_.add(folder_ / of_rank(path, d), made.root, &old, path);
        for (const NewFlat& flat : made.flats) {
            const Group& group = groups_[flat.group];
            const GroupLayout& layout = view.layouts[flat.group];
            const Interval held = layout.partition(view.partition[flat.group]);
            const Index expert_rank = d % (layout_.dp / counts_[flat.group]);
            for (std::size_t p = 0; p < group.size(); ++p) {
                const auto& [name, shape] = group[p];
                const Interval own{layout.starts[p], layout.starts[p] + volume(shape)};
                const Interval here = intersect(own, held);
                const std::string global = global_expert_name(name, expert_rank, local_experts(group, name));
                add_pieces(placed, flat, name, global, mp, d, here.begin - held.begin, shift(here, -own.begin));
            }
        }
    }

    void add_subgroups(const torch::Archive& old, const fs::path& path, int mp, int d) {
        std::vector<Index> lengths;
        for (const Group& group : groups_) {
            lengths.push_back(0);
            for (const Index numel : numels(group)) lengths.back() += part_of_parameter(numel, layout_.dp);
        }
        Document document;
        const NewOptimizer made = repartition3(old, lengths, cut_, layout_.dp, document);
        const StepDraft::Placed placed = draft_.add(folder_ / of_rank(path, d), made.root, &old, path);
        for (const NewFlat& flat : made.flats) {
            Index at = 0;
            for (const auto& [name, shape] : groups_[flat.group]) {
                const Index part = part_of_parameter(volume(shape), layout_.dp);
                const Interval here = intersect({d * part, (d + 1) * part}, {0, volume(shape)});
                add_pieces(placed, flat, name, name, mp, d, at, here);
                at += part;
            }
        }
    }

    /// Elements `range` of the rank's slice of parameter `name` go to place `at` of a flat vector.
    void add_pieces(const StepDraft::Placed& placed, const NewFlat& flat, const std::string& name,
                    const std::string& global, int mp, int d, Index at, Interval range) {
        if (range.empty()) return;
        const Parameter& parameter = grid_.parameters.find(name)->second;
        const std::uint32_t tensor = draft_.tensor(fmt::format("{}/{}", global, flat.state));
        if (draft_[tensor].dtype != flat.dtype)
            throw failure("tensor '{}': is {} in some files and {} in others", draft_[tensor].name,
                          tpx::name(draft_[tensor].dtype), tpx::name(flat.dtype));
        const int size = itemsize(flat.dtype);
        const int t = mp % grid_.tp;
        append_range(draft_.pieces(),
                     {.tensor = tensor,
                      .file = placed.file,
                      .offset = placed.storages.at(flat.key).offset +
                                static_cast<std::uint64_t>(at) * static_cast<std::uint64_t>(size),
                      .rank = (mp / grid_.tp * layout_.dp + d) * grid_.tp + t},
                     size, range, parameter.locals[t], parameter.slicing.blocks[parameter.slicing.replicated ? 0 : t]);
    }

    // Model files

    void add_model(int mp, int d) {
        const ModelFile& model = grid_.models[mp];
        Document document;
        Value root = document.with_key(model.root(), "dp_world_size", document.integer(layout_.dp));
        if (groups_ != model.groups) root = document.with_key(root, "param_shapes", shapes(document));
        if (!grid_.zero3) {
            root = with_stage(model, root, document);
            draft_.add(folder_ / model.path.filename(), root, &model.archive, model.path);
            return;
        }
        if (d > 0 && root.find("shared_params"))  // only the first rank tells them
            root = document.with_key(root, "shared_params", document.dict());
        if (model.frozen.empty()) {
            draft_.add(folder_ / of_rank(model.path, d), root, &model.archive, model.path);
            return;
        }
        std::vector<NewFlat> flats;
        root = document.with_key(root, "frozen_param_fragments", fragments(model, document, flats));
        const auto placed = draft_.add(folder_ / of_rank(model.path, d), root, &model.archive, model.path);
        for (std::size_t p = 0; p < flats.size(); ++p) copy_frozen(placed, flats[p], model.frozen[p], mp, d);
    }

    Value shapes(Document& document) const {
        std::vector<Value> items;
        for (const Group& group : groups_) {
            const Value dict = torch::make_ordered_dict(document);
            for (const auto& [name, shape] : group) {
                const Entry entry{document.string(name), document.size({shape.begin(), std::size_t(shape.size())})};
                document.insert(dict, {&entry, 1});
            }
            items.push_back(dict);
        }
        return document.list(items);
    }

    /// ZeRO 1 keeps frozen parameters in the module only, ZeRO 2 names them once more.
    Value with_stage(const ModelFile& model, Value root, Document& document) const {
        if (layout_.zero == old_layout_.zero) return root;
        if (const auto config = root.find("ds_config"); config && config->is(Kind::dict)) {
            if (const auto zero = config->find("zero_optimization"); zero && zero->is(Kind::dict)) {
                const Value staged = document.with_key(*zero, "stage", document.integer(layout_.zero));
                root = document.with_key(root, "ds_config", document.with_key(*config, "zero_optimization", staged));
            }
        }
        if (layout_.zero == 1 || model.frozen.empty())
            return layout_.zero == 1 ? document.with_key(root, "frozen_param_fragments", {}) : root;
        const Value fragments = torch::make_ordered_dict(document);
        for (const auto& [name, shape] : model.frozen) {
            const Entry entry{document.string(name), model.root().at("module").at(name)};
            document.insert(fragments, {&entry, 1});
        }
        return document.with_key(root, "frozen_param_fragments", fragments);
    }

    /// New fragments of the frozen parameters, in the order of frozen_param_shapes.
    Value fragments(const ModelFile& model, Document& document, std::vector<NewFlat>& flats) const {
        const Value old = model.root().at("frozen_param_fragments");
        const Value made = torch::make_ordered_dict(document);
        NewKeys keys{&model.archive};
        for (const auto& [name, shape] : model.frozen) {
            const DType dtype = plain_tensor(model.archive, old.at(name)).dtype;
            flats.push_back({0, name, keys.next(), dtype});
            const Index part = part_of_parameter(volume(shape), layout_.dp);
            const Entry entry{document.string(name), torch::make_tensor(document, dtype, {part}, flats.back().key)};
            document.insert(made, {&entry, 1});
        }
        return made;
    }

    /// Fills a fragment from those of the old ranks, byte by byte.
    void copy_frozen(const StepDraft::Placed& placed, const NewFlat& flat,
                     const std::pair<std::string, Shape>& parameter, int mp, int d) {
        const Index numel = volume(parameter.second);
        const Index part = part_of_parameter(numel, layout_.dp);
        const Index old_part = part_of_parameter(numel, grid_.dp);
        const Interval here = intersect({d * part, (d + 1) * part}, {0, numel});
        const auto size = static_cast<std::uint64_t>(itemsize(flat.dtype));
        for (Index k = old_part == 0 ? grid_.dp : here.begin / old_part; k < grid_.dp; ++k) {
            const Interval shared = intersect(here, {k * old_part, (k + 1) * old_part});
            if (shared.empty()) break;
            const fs::path& path = grid_.files.models.at({mp, static_cast<int>(k)});
            const torch::Archive archive = torch::Archive::open(path);
            const torch::StoredTensor stored =
                plain_tensor(archive, archive.root().at("frozen_param_fragments").at(parameter.first));
            if (stored.shape != Shape{old_part} || stored.dtype != flat.dtype)
                throw failure("{}: tensor '{}': a frozen fragment of shape {}", path.string(), parameter.first,
                              to_string(stored.shape));
            draft_.copy_bytes(
                placed.file, placed.storages.at(flat.key).offset + std::uint64_t(shared.begin - d * part) * size, path,
                stored.offset + std::uint64_t(shared.begin - k * old_part) * size, std::uint64_t(shared.size()) * size);
        }
    }

    Layout layout_;
    Layout old_layout_;
    Grid grid_;
    fs::path folder_;
    StepDraft draft_;
    // Of the model-parallel rank at work:
    std::vector<Group> groups_;
    std::vector<int> counts_;               // partitions of each group
    std::vector<std::vector<Index>> gaps_;  // behind its parameters
    Subgroups cut_;                         // ZeRO 3
};

}  // namespace

Draft draft_deepspeed(const Content& content) {
    if (content.source->format != Format::deepspeed)
        throw failure("DeepSpeed's own files are made of DeepSpeed checkpoints only, of which they keep the settings");
    return ZeroDraft{content, find_deepspeed(content.source->catalogue.directory)}.make();
}

}  // namespace tpx::formats
