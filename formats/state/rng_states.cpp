// SPDX-License-Identifier: Apache-2.0
#include "formats/state/rng_states.hpp"

#include "formats/driver.hpp"
#include "formats/encodings/archive_at.hpp"
#include "formats/encodings/torch/tree_copy.hpp"
#include "formats/settings/args_layout.hpp"
#include "formats/state/common_state.hpp"
#include "lib/core/error.hpp"
#include "lib/core/file.hpp"
#include "lib/layout/grid.hpp"

#include <fcntl.h>

#include <algorithm>
#include <charconv>
#include <cstring>
#include <unordered_map>

namespace tpx::formats::megatron {
namespace {

using torch::Archive;
using torch::Document;
using torch::Entry;
using torch::Kind;
using torch::Value;

constexpr std::string_view object_prefix = "rng_state/shard_";

/// The numbers before and after the underscore of text such as "0.1_2.4"; unset if the text has another form.
std::optional<std::pair<std::vector<int>, std::vector<int>>> numbers_of(std::string_view text) {
    std::pair<std::vector<int>, std::vector<int>> numbers;
    std::vector<int>* list = &numbers.first;
    while (true) {
        int number = -1;
        const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
        if (error != std::errc{} || number < 0) return std::nullopt;
        list->push_back(number);
        text.remove_prefix(static_cast<std::size_t>(end - text.data()));
        if (text.empty()) break;
        if (text[0] == '_' && list == &numbers.first)
            list = &numbers.second;
        else if (text[0] != '.')
            return std::nullopt;
        text.remove_prefix(1);
    }
    return numbers.first.size() == numbers.second.size() ? std::optional{numbers} : std::nullopt;
}

/// The seed in a state of CUDA's generator, which consists of the seed and the offset, 8 bytes each.
std::optional<std::uint64_t> seed_of(const Archive& archive, Value value) {
    const auto tensor = archive.tensor(value);
    if (!tensor || tensor->dtype != DType::u8 || tensor->shape != Shape{16}) return std::nullopt;
    std::uint64_t seed = 0;
    std::memcpy(&seed, archive.elements(*tensor).data(), sizeof seed);
    return seed;
}

using Seeds = std::unordered_map<Value, std::uint64_t, torch::ValueHash>;

/// The seeds of the CUDA generators in a dict of states if the state of `from` becomes that of `to`. Megatron seeds
/// them with seed + 100 pp [+ 10 dp], and adds tp and 100 ep for those of its tracker; CUDA's own generator has the
/// seed of one of these.
Seeds new_seeds(const Archive& archive, Value state, const RngPlace& from, const RngPlace& to, int dp) {
    Seeds seeds;
    if (!state.is(Kind::dict)) return seeds;
    const int all = 100 * (to.pp - from.pp) + 10 * dp;
    const auto own = state.find("cuda_rng_state");
    const std::uint64_t own_seed = own ? seed_of(archive, *own).value_or(0) : 0;
    const bool has_own = own && seed_of(archive, *own);
    if (has_own) seeds[*own] = own_seed + static_cast<std::uint64_t>(std::int64_t{all});
    const auto tracker = state.find("rng_tracker_states");
    for (const Entry& entry : tracker && tracker->is(Kind::dict) ? tracker->entries() : std::span<const Entry>{}) {
        const std::string_view name = entry.key.is(Kind::string) ? entry.key.as_string() : "";
        const auto seed = seed_of(archive, entry.value);
        if (!seed) continue;
        int shift = all;
        if (name == "model-parallel-rng") shift += to.tp - from.tp;
        if (name == "expert-parallel-rng") shift += 100 * (to.ep - from.ep) + to.tp - from.tp;
        seeds[entry.value] = *seed + static_cast<std::uint64_t>(std::int64_t{shift});
        if (has_own && own_seed == *seed) seeds[*own] = *seed + static_cast<std::uint64_t>(std::int64_t{shift});
    }
    return seeds;
}

}  // namespace

std::vector<RngPlace> rng_places(const Layout& layout) {
    const Grid experts = grid_of(layout, true);
    std::vector<RngPlace> places;
    std::map<std::pair<int, int>, int> replicas;  // of each (pp, tp), so far
    for (int rank = 0; rank < layout.ranks(); ++rank) {
        const Coordinates at = coordinates(layout, rank);
        places.push_back(
            {.pp = at.pp, .tp = at.tp, .ep = experts.block.of(rank), .replica = replicas[{at.pp, at.tp}]++});
    }
    return places;
}

std::vector<RngObject> rng_objects_of(const Checkpoint& source) {
    const RngStates states{source};
    if (states.empty()) return {};
    const Layout layout = source.rank_values.empty() ? layout_of_args(source.config, {}) : source.layout.value();
    std::map<std::string, RngPlace> places;
    for (const RngPlace& place : rng_places(layout)) places.try_emplace(rng_object_name(place, layout), place);
    std::vector<RngObject> objects;
    for (const auto& [name, place] : places) {
        Document document;
        torch::Contents contents;
        const Value list = states.state(document, contents, place, layout);
        objects.push_back(
            {name, torch::frame_archive(document.list(std::vector<Value>{list}), {}, contents).runs.at(0)});
    }
    return objects;
}

std::string rng_object_name(const RngPlace& place, const Layout& layout) {
    if (layout.ep == 1) return fmt::format("{}{}.{}_{}.{}", object_prefix, place.pp, place.tp, layout.pp, layout.tp);
    return fmt::format("{}{}.{}.{}_{}.{}.{}", object_prefix, place.pp, place.tp, place.replica, layout.pp, layout.tp,
                       rng_replicas(layout));
}

RngStates::RngStates(const Checkpoint& checkpoint) {
    add_files(checkpoint);
    const ValueStorage values = checkpoint.format->values;
    if (values == ValueStorage::objects || values == ValueStorage::common_and_objects) add_objects(checkpoint);
}

void RngStates::add(State state) {
    const RngPlace& place = state.place;
    extent_.pp = std::max(extent_.pp, place.pp + 1);
    extent_.tp = std::max(extent_.tp, place.tp + 1);
    extent_.ep = std::max(extent_.ep, place.ep + 1);
    extent_.replica = std::max(extent_.replica, place.replica + 1);
    states_.insert_or_assign(place, std::move(state));
}

void RngStates::add_files(const Checkpoint& checkpoint) {
    for (const RankValues& rank : checkpoint.rank_values) {
        auto archive = std::make_shared<const Archive>(Archive::open(checkpoint.catalogue.directory / rank.file));
        const auto list = archive->root().find("rng_state");
        if (list && list->is(Kind::list)) add({{.pp = rank.pp, .tp = rank.tp, .ep = rank.ep}, nullptr, archive, *list});
    }
}

void RngStates::add_objects(const Checkpoint& checkpoint) {
    const Catalogue& catalogue = checkpoint.catalogue;
    // A DCP checkpoint that was converted from Megatron's has Megatron's args in addition to a model's configuration.
    const bool has_args = !checkpoint.format->has_args && checkpoint.common;
    const Layout layout = layout_of_args(has_args ? args_of(*checkpoint.common) : checkpoint.config, {});
    std::map<std::tuple<int, int, int>, int> experts;  // by (pp, tp, replica)
    for (const RngPlace& place : rng_places(layout)) experts[{place.pp, place.tp, place.replica}] = place.ep;
    for (const Object& object : catalogue.objects) {
        if (!object.name.starts_with(object_prefix)) continue;
        const auto numbers = numbers_of(std::string_view{object.name}.substr(object_prefix.size()));
        if (!numbers || numbers->first.size() < 2 || numbers->first.size() > 3) continue;
        const std::vector<int>& at = numbers->first;
        RngPlace place{.pp = at[0], .tp = at[1], .replica = at.size() > 2 ? at[2] : 0};
        const auto expert = experts.find({place.pp, place.tp, place.replica});
        if (at.size() > 2 && expert != experts.end()) place.ep = expert->second;
        const auto file = std::make_shared<const Fd>(open_file(catalogue.path(object.file), O_RDONLY));
        auto archive = std::make_shared<const Archive>(Archive::open(range_of(catalogue, object, *file)));
        const Value root = archive->root();
        const bool fits = root.is(Kind::list) && root.items().size() == 1 && root.items()[0].is(Kind::list);
        if (fits) add({place, file, archive, root.items()[0]});
    }
}

/// The source's place whose state is used for `place`: `place` itself if the source has it.
RngPlace RngStates::wrapped(const RngPlace& place) const {
    RngPlace other{place.pp % extent_.pp, place.tp % extent_.tp, place.ep % extent_.ep,
                   place.replica % extent_.replica};
    if (extent_.replica == 1) return other;
    // torch_dist distinguishes experts' states by replica, not by expert rank.
    const auto same = [&](const auto& entry) {
        return entry.first.pp == other.pp && entry.first.tp == other.tp && entry.first.replica == other.replica;
    };
    const auto found = std::ranges::find_if(states_, same);
    return found == states_.end() ? other : found->first;
}

const RngStates::State& RngStates::source_of(const RngPlace& place) const {
    const auto found = states_.find(wrapped(place));
    return found == states_.end() ? states_.begin()->second : found->second;
}

void RngStates::for_each(
    const std::function<void(const RngPlace& place, const torch::Archive& archive, Value list)>& visit) const {
    for (const auto& [place, state] : states_) visit(place, *state.archive, state.list);
}

bool RngStates::has_all(const Layout& layout) const {
    const bool of_replicas = extent_.replica > 1;
    return std::ranges::all_of(rng_places(layout), [&](const RngPlace& place) {
        const RngPlace& source = source_of(place).place;
        return source.pp == place.pp && source.tp == place.tp &&
               (of_replicas ? source.replica == place.replica : source.ep == place.ep);
    });
}

Value RngStates::state(Document& document, torch::Contents& contents, const RngPlace& place,
                       const Layout& layout) const {
    const State& source = source_of(place);
    const auto items = source.list.items();
    const std::size_t count = items.size() > 1 ? static_cast<std::size_t>(layout.dp) : items.size();
    torch::CarriedTensors carried{document, contents};
    std::vector<Value> list;
    for (std::size_t d = 0; d < count; ++d) {
        const std::size_t from = d % items.size();
        const Seeds seeds =
            new_seeds(*source.archive, items[from], source.place, place, static_cast<int>(d) - static_cast<int>(from));
        torch::TreeCopy tree{document, true};
        list.push_back(tree.copy(items[from], [&](Value value) -> std::optional<Value> {
            const auto tensor = source.archive->tensor(value);
            if (!tensor) return std::nullopt;
            std::string bytes = source.archive->elements(*tensor);
            if (const auto seed = seeds.find(value); seed != seeds.end())
                std::memcpy(bytes.data(), &seed->second, sizeof seed->second);
            return carried.add(tensor->dtype, tensor->shape, std::move(bytes));
        }));
    }
    return document.list(list);
}

}  // namespace tpx::formats::megatron
