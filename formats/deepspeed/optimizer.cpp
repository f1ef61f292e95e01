// SPDX-License-Identifier: Apache-2.0
#include "formats/deepspeed/optimizer.hpp"

#include "formats/deepspeed/groups.hpp"
#include "formats/deepspeed/open_step_file.hpp"
#include "formats/deepspeed/optimizer_settings.hpp"
#include "formats/deepspeed/states.hpp"
#include "formats/encodings/torch/copied_archives.hpp"
#include "formats/state/training_keys.hpp"
#include "lib/core/error.hpp"
#include "lib/core/name_list.hpp"

#include <algorithm>
#include <filesystem>
#include <map>
#include <set>

namespace tpx::formats::deepspeed {
namespace {

using torch::Kind;
using torch::Value;

/// One optimizer file, its rank and its number in the catalogue.
struct Source {
    torch::Archive archive;
    Value optimizer;
    std::uint32_t file = 0;
    int mp = 0;
    int d = 0;
};

class OptimizerReader {
public:
    OptimizerReader(WriterGrid& grid, CatalogueBuilder& builder) : grid_{grid}, builder_{builder} {}

    void read() {
        require_files();
        for (int mp = 0; mp < static_cast<int>(grid_.models.size()); ++mp) {
            for (int d = 0; d < grid_.dp; ++d) read_file(mp, d);
        }
        if (round_robin_) note_round_robin();
    }

private:
    void require_files() {
        NameList absent;
        for (int mp = 0; mp < static_cast<int>(grid_.models.size()); ++mp) {
            for (int d = 0; d < grid_.dp; ++d)
                if (!grid_.files.optimizers.contains({mp, d})) absent.add(rank_name(mp, d));
        }
        if (absent.count() > 0)
            throw failure("{}: {}", grid_.models[0].path.parent_path().string(),
                          missing_files_text("optimizer", absent));
    }

    void read_file(int mp, int d) {
        const auto path = grid_.files.optimizers.find({mp, d});
        Source source{.archive = open_step_file(path->second, grid_.notes),
                      .file = builder_.file(path->second),
                      .mp = mp,
                      .d = d};
        source.optimizer = in_context([&] { return path->second.string(); },
                                      [&] { return source.archive.root().at("optimizer_state_dict"); });
        if (source.optimizer.is(Kind::dict))
            compare_optimizer_settings(settings_, path->second, source.archive.root(), mp);
        in_context([&] { return path->second.string(); },
                   [&] { grid_.zero3 ? read_subgroups(source) : read_groups(source); });
        refuse_copy(mp, path->second, source.archive);
    }

    /// Throws Error if the file is a copy of that of another data rank, or of a rank whose part of the model differs.
    void refuse_copy(int mp, const std::filesystem::path& path, const torch::Archive& archive) {
        const auto original = archives_.add(path, archive);
        mp_of_[path] = mp;
        if (!original) return;
        const int other = mp_of_.at(*original);
        const auto part = [&](int rank) { return grid_.models[rank].archive.storages_hash(); };
        if (other != mp && part(other) == part(mp)) return;
        throw failure("{}: is a copy of {}, although ranks store different partitions", path.string(),
                      original->filename().string());
    }

    const std::vector<ParameterGroup>& groups(const Source& source) const { return grid_.models[source.mp].groups; }

    // ZeRO 1 and 2

    void read_groups(const Source& source) {
        const std::vector<GroupState> states = partition_states(source.archive, source.optimizer);
        if (states.size() != groups(source).size())
            throw failure("{} groups of master weights, but param_shapes has {}", states.size(), groups(source).size());
        for (std::size_t g = 0; g < states.size(); ++g)
            in_context([&] { return fmt::format("group {}", g); }, [&] { read_group(source, g, states[g]); });
    }

    int partition_count(const Source& source, std::size_t g) const {
        const Value count = source.optimizer.at("partition_count");
        const std::int64_t n = count.is(Kind::integer) ? count.as_int() : item(count, g).as_int();
        if (n < 1 || n > grid_.dp || grid_.dp % n != 0) throw failure("{} partitions over {} data ranks", n, grid_.dp);
        return static_cast<int>(n);
    }

    static Value item(Value list, std::size_t g) {
        if (g >= list.items().size()) throw failure("a list of only {} groups", list.items().size());
        return list.items()[g];
    }

    std::vector<Index> gaps(const Source& source, std::size_t g) const {
        const auto all = source.optimizer.find("param_alignment_paddings");
        std::vector<Index> gaps;
        if (!all || all->is_none()) return gaps;
        for (const Value gap : item(*all, g).items()) {
            if (gap.as_int() < 0) throw failure("invalid alignment padding {}", gap.as_int());
            gaps.push_back(gap.as_int());
        }
        if (gaps.size() != groups(source)[g].size())
            throw failure("{} alignment paddings for {} parameters", gaps.size(), groups(source)[g].size());
        return gaps;
    }

    void read_group(const Source& source, std::size_t g, const GroupState& state) {
        const ParameterGroup& group = groups(source)[g];
        const int partitions = partition_count(source, g);
        const int expert_ranks = grid_.dp / partitions;
        grid_.ep = std::max(grid_.ep, expert_ranks);
        for (const auto& [name, shape] : group)
            if (expert_ranks > 1 && local_experts(group, name) == 0)
                throw failure("tensor '{}': is not an expert's, but has {} partitions over {} data ranks", name,
                              partitions, grid_.dp);
        const GroupLayout layout = lay_out_group(numels(group), gaps(source, g), partitions);
        const int k = source.d / expert_ranks;
        const Interval held = layout.partition(k);
        check_padding(source, g, layout, k);
        check_lengths(state, held.size(), layout.part);
        check_maps(source, g, layout, k);
        for (std::size_t p = 0; p < group.size(); ++p) {
            const auto& [name, shape] = group[p];
            const Interval own{layout.starts[p], layout.starts[p] + volume(shape)};
            const Interval here = intersect(own, held);
            const std::string global = global_expert_name(name, source.d % expert_ranks, local_experts(group, name));
            const bool begins = held.begin <= own.begin && own.begin < held.end;
            for (const State& flat : state.flat)
                add(source, name, global, flat, flat.tensor.offset, here.begin - held.begin, shift(here, -own.begin));
            for (const State& scalar : state.scalar)
                if (begins || own.empty()) add_scalar(source, name, global, scalar);
        }
        for (const State& scalar : state.scalar) check_scalar(source, g, scalar);
    }

    /// Master weights are stored without padding, moments usually with it.
    static void check_lengths(const GroupState& state, Index held, Index padded) {
        for (const State& flat : state.flat) {
            const Index length = flat.tensor.shape[0];
            if (length != held && length != padded)
                throw failure("state '{}' of {} elements; the parameters imply {}, or {} with padding", flat.name,
                              length, held, padded);
        }
    }

    void check_padding(const Source& source, std::size_t g, const GroupLayout& layout, int k) const {
        const auto all = source.optimizer.find("group_paddings");
        if (!all || all->is_none()) return;
        const Index recorded = item(*all, g).as_int();
        const Index own = layout.part - layout.partition(k).size();
        // BF16_Optimizer records all padding of the group on its last rank, and none on the others.
        const Index last = k == layout.partitions - 1 ? layout.part * layout.partitions - layout.total : 0;
        if (recorded != own && recorded != last)
            throw failure("group_paddings is {}, but the parameters imply {}", recorded, own);
    }

    /// The rank's param_slice_mappings must agree with the shapes, except for round-robin partitions, where DeepSpeed's
    /// map has another order than the data.
    void check_maps(const Source& source, std::size_t g, const GroupLayout& layout, int k) {
        const auto all = source.optimizer.find("param_slice_mappings");
        if (!all || all->is_none()) return;
        std::map<std::string_view, Interval> map;
        for (const auto& [key, fragment] : item(*all, g).entries()) {
            const Index start = fragment.attribute_at("start").as_int();
            const Index numel = fragment.attribute_at("numel").as_int();
            if (start < 0 || numel < 0 || start > layout.part || numel > layout.part)
                throw failure("tensor '{}': param_slice_mappings gives it {} elements starting at {}", key.as_string(),
                              numel, start);
            map.emplace(key.as_string(), Interval{start, start + numel});
        }
        const ParameterGroup& group = groups(source)[g];
        std::size_t met = 0;
        for (std::size_t p = 0; p < group.size(); ++p) {
            const Interval own{layout.starts[p], layout.starts[p] + volume(group[p].second)};
            const Interval here = shift(intersect(own, layout.partition(k)), -k * layout.part);
            const auto found = map.find(group[p].first);
            met += found != map.end();
            if (found == map.end() ? here.empty() : found->second == here || (found->second.empty() && here.empty()))
                continue;
            if (is_round_robin()) {
                round_robin_ = true;
                return;
            }
            throw failure("tensor '{}': param_slice_mappings and param_shapes disagree about where it lies",
                          group[p].first);
        }
        if (met != map.size()) throw failure("param_slice_mappings has parameters that param_shapes lacks");
    }

    bool is_round_robin() const {
        const auto setting = grid_.models[0].zero_setting("round_robin_gradients");
        return setting && setting->is(Kind::boolean) && setting->as_bool();
    }

    // ZeRO 3

    void read_subgroups(const Source& source) {
        if (const auto groups = source.optimizer.find("ds_zero_partition_groups"); groups && groups->is(Kind::list))
            check_partition_groups(*groups);
        const Value count = source.optimizer.at("partition_count");
        if (count.is(Kind::integer) && count.as_int() != grid_.dp)
            throw failure("{} partitions over {} data ranks", count.as_int(), grid_.dp);
        const std::vector<GroupState> states = subgroup_states(source.archive, source.optimizer);
        if (states.size() != groups(source).size())
            throw failure("{} sub-groups of master weights, but param_shapes has {}", states.size(),
                          groups(source).size());
        for (std::size_t g = 0; g < states.size(); ++g)
            in_context([&] { return fmt::format("sub-group {}", g); }, [&] { read_subgroup(source, g, states[g]); });
    }

    void check_partition_groups(Value groups) const {
        for (const Value group : groups.items()) {
            if (!group.is(Kind::dict)) continue;
            const auto count = group.find("partition_count");
            if (count && count->is(Kind::integer) && count->as_int() != grid_.dp)
                throw failure("a sub-group of {} partitions over {} data ranks", count->as_int(), grid_.dp);
        }
    }

    void read_subgroup(const Source& source, std::size_t g, const GroupState& state) {
        const ParameterGroup& group = groups(source)[g];
        Index length = 0;
        for (const Index numel : numels(group)) {
            if (__builtin_add_overflow(length, part_of_parameter(numel, grid_.dp), &length))
                throw failure("its parameters are too large");
        }
        for (const State& flat : state.flat)
            if (flat.tensor.shape[0] != length)
                throw failure("state '{}' of {} elements; the parameters imply {}", flat.name, flat.tensor.shape[0],
                              length);
        Index at = 0;
        for (const auto& [name, shape] : group) {
            const Index part = part_of_parameter(volume(shape), grid_.dp);
            const Interval here = intersect({source.d * part, (source.d + 1) * part}, {0, volume(shape)});
            for (const State& flat : state.flat) add(source, name, name, flat, flat.tensor.offset, at, here);
            for (const State& scalar : state.scalar)
                if (source.d == 0) add_scalar(source, name, name, scalar);
            at += part;
        }
        for (const State& scalar : state.scalar) check_scalar(source, g, scalar);
    }

    // Both

    /// Adds elements `range` of the rank's slice, which start at position `at` of the flat vector at `offset`. `name`
    /// is the parameter's name on this rank, `global` its name in the whole model.
    void add(const Source& source, const std::string& name, const std::string& global, const State& state,
             std::uint64_t offset, Index at, Interval range) {
        const Parameter& parameter = grid_.parameters.find(name)->second;
        if (parameter.stage != source.mp / grid_.tp) return;
        const int t = source.mp % grid_.tp;
        const std::uint32_t tensor =
            builder_.tensor(fmt::format("{}/{}", global, state.name), role_of_state(state.name), state.tensor.dtype,
                            parameter.slicing.whole);
        if (range.empty()) return;
        const auto size = static_cast<std::uint64_t>(itemsize(state.tensor.dtype));
        builder_.add_range(tensor, source.file, offset + static_cast<std::uint64_t>(at) * size, range,
                           parameter.locals[t], parameter.slicing.blocks[t], grid_.rank(source.mp, source.d));
    }

    void add_scalar(const Source& source, const std::string& name, const std::string& global, const State& state) {
        const Parameter& parameter = grid_.parameters.find(name)->second;
        const std::string full = fmt::format("{}/{}", global, state.name);
        if (parameter.stage != source.mp / grid_.tp || builder_.has(full)) return;
        const std::uint32_t tensor = builder_.tensor(full, role_of_state(state.name), state.tensor.dtype, {});
        builder_.add_slice(tensor, source.file, state.tensor, unsliced({}).blocks[0], grid_.rank(source.mp, source.d));
    }

    /// All partitions of a group must have equal scalars, such as steps.
    void check_scalar(const Source& source, std::size_t g, const State& state) {
        const std::string text = scalar_text(source.archive, state.tensor);
        const auto [known, added] = scalars_.emplace(std::tuple{source.mp, g, state.name}, text);
        if (!added && known->second != text)
            throw failure("{} is {}, but {} in the file of data rank 0", state.name, text, known->second);
    }

    void note_round_robin() {
        const std::string version = grid_.models[0].version();
        grid_.notes.push_back(
            fmt::format("DeepSpeed {}with round_robin_gradients: param_slice_mappings record a different order than "
                        "the partitions have; tpx uses param_shapes, but ds_to_universal mixes the parameters up",
                        version.empty() ? "" : version + " "));
    }

    WriterGrid& grid_;
    CatalogueBuilder& builder_;
    RankSettings settings_;
    torch::CopiedArchives archives_{1};
    std::map<std::filesystem::path, int> mp_of_;  // of the files in archives_
    std::map<std::tuple<int, std::size_t, std::string>, std::string> scalars_;
    bool round_robin_ = false;
};

}  // namespace

void add_optimizer(WriterGrid& grid, CatalogueBuilder& builder) { OptimizerReader{grid, builder}.read(); }

}  // namespace tpx::formats::deepspeed
