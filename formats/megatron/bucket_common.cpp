// SPDX-License-Identifier: Apache-2.0
#include "formats/megatron/bucket_common.hpp"

#include "formats/encodings/archive_at.hpp"
#include "formats/encodings/torch/archive.hpp"
#include "formats/encodings/torch/keep_alive.hpp"
#include "formats/encodings/torch/without_keys.hpp"
#include "formats/megatron/rank_state.hpp"
#include "lib/core/error.hpp"
#include "lib/core/file.hpp"

#include <fcntl.h>

#include <array>
#include <map>
#include <optional>
#include <string>

namespace tpx::formats::megatron {
namespace {

using torch::Document;
using torch::Entry;
using torch::Kind;
using torch::Value;

constexpr std::string_view group_mark = "dp_group_idx_";
constexpr std::string_view sharding_key = "param_state_sharding_type";

/// The only value in the list that an object's archive contains.
std::shared_ptr<const Value> value_of(const Catalogue& catalogue, const Object& object, torch::Contents& storages) {
    const Fd fd = open_file(catalogue.path(object.file), O_RDONLY);
    const torch::Archive archive = torch::Archive::open(range_of(catalogue, object, fd));
    return in_context([&] { return fmt::format("object '{}'", object.name); },
                      [&] {
                          if (!archive.root().is(Kind::list) || archive.root().items().size() != 1)
                              throw failure("contains {}, not a list of one", archive.root().describe());
                          return keep_copy_alive(archive, archive.root().items()[0], storages);
                      });
}

/// The steps of an optimizer's groups, as text.
std::string steps_of(Value optimizer) {
    std::string text;
    const auto groups = optimizer.is(Kind::dict) ? optimizer.find("param_groups") : std::nullopt;
    if (!groups || !groups->is(Kind::list)) return text;
    for (const Value group : groups->items()) {
        const auto step = group.is(Kind::dict) ? group.find("step") : std::nullopt;
        if (step && step->is(Kind::integer)) text += fmt::format("{} ", step->as_int());
    }
    return text;
}

/// The sharding type of the distributed optimizer in the metadata of a common state; empty if none is recorded.
std::string_view sharding_type(Value metadata) {
    const auto type = metadata.is(Kind::dict) ? metadata.find("distrib_optim_sharding_type") : std::nullopt;
    return type && type->is(Kind::string) ? type->as_string() : std::string_view{};
}

/// The optimizer of a common state, or a dict of two optimizers with keys 0 and 1.
Value joined(Document& document, const std::map<int, Value>& optimizers) {
    if (optimizers.size() == 1 && optimizers.begin()->first < 0) return optimizers.begin()->second;
    std::vector<Entry> entries;
    for (const auto& [number, value] : optimizers) entries.push_back({document.integer(number), value});
    return document.dict(entries);
}

/// The common state with `change` applied to its optimizer, or to both of them.
template <class Change>
Value with_each_optimizer(Document& document, Value common, Change&& change) {
    const auto optimizer = common.find("optimizer");
    if (!optimizer || !optimizer->is(Kind::dict)) return common;
    if (optimizer->find("optimizer") || optimizer->find("param_groups"))
        return document.with_key(common, "optimizer", change(*optimizer));
    std::vector<Entry> both;
    for (const Entry& entry : optimizer->entries()) {
        if (entry.key.is(Kind::integer) && entry.value.is(Kind::dict)) both.push_back({entry.key, change(entry.value)});
    }
    return both.empty() ? common : document.with_key(common, "optimizer", document.dict(both));
}

}  // namespace

std::shared_ptr<const Value> common_with_groups(Checkpoint& checkpoint, const std::vector<bool>& taken) {
    Document document;
    std::map<int, Value> optimizers;  // by number in the chain; -1: there is no chain
    std::map<int, std::string> steps;
    std::vector<std::shared_ptr<const Value>> held;
    for (std::size_t o = 0; o < taken.size(); ++o) {
        const Object& object = checkpoint.catalogue.objects[o];
        const std::string_view name = object.name;
        const std::size_t dot = name.find('.', name.find(group_mark));
        if (!taken[o] || dot == name.npos) continue;
        const std::string_view key = name.substr(dot + 1, name.find('/') - dot - 1);
        if (key == "param_state" || key.starts_with("per_bucket_numel")) continue;
        held.push_back(value_of(checkpoint.catalogue, object, checkpoint.common_storages));
        const int chain = name.starts_with("chained_1.") ? 1 : name.starts_with("chained_") ? 0 : -1;
        const auto [known, first] = optimizers.emplace(chain, document.dict());
        if (key == "optimizer") {
            const std::string own = steps_of(*held.back());
            if (const auto [before, added] = steps.emplace(chain, own); !added && before->second != own)
                throw failure("object '{}': its groups are at steps {}, those of other ranks at {}", name, own,
                              before->second);
        }
        if (!known->second.find(key)) known->second = document.with_key(known->second, key, *held.back());
    }
    Value common = *checkpoint.common;
    if (!optimizers.empty()) common = document.with_key(common, "optimizer", joined(document, optimizers));
    return keep_copy_alive(with_sharding_type(document, common, true));
}

Value with_sharding_type(Document& document, Value common, bool distributed) {
    Value metadata = common.find("content_metadata").value_or(Value{});
    if (sharding_type(metadata) == (distributed ? "fully_reshardable" : "") && metadata.is(Kind::dict)) return common;
    if (!metadata.is(Kind::dict)) {
        metadata = document.with_key(document.dict(), "singleton_local_shards", Value::boolean(false));
        metadata = document.with_key(metadata, "chained_optim_avoid_prefix", Value::boolean(true));
    }
    constexpr const char* kind = "distrib_optim_sharding_type";
    constexpr const char* efficient = "distrib_optim_fully_reshardable_mem_efficient";
    const Value type = document.string("fully_reshardable");
    metadata = torch::without_keys(document, metadata, {kind, efficient});
    metadata = document.with_key(metadata, "chained_optim_avoid_prefix", Value::boolean(true));
    if (distributed) {
        metadata = document.with_key(metadata, kind, type);
        metadata = document.with_key(metadata, efficient, Value::boolean(false));
    }
    common = document.with_key(common, "content_metadata", metadata);
    return with_each_optimizer(document, common, [&](Value optimizer) {
        const Value plain = torch::without_keys(document, optimizer, {sharding_key});
        return distributed ? document.with_key(plain, sharding_key, type) : plain;
    });
}

Value with_masters(Document& document, Value common, bool masters) {
    return with_each_optimizer(document, common, [&](Value optimizer) {
        const auto inner = optimizer.find("optimizer");
        if (inner && !masters) return *inner;
        return inner || !masters ? optimizer : document.with_key(document.dict(), "optimizer", optimizer);
    });
}

}  // namespace tpx::formats::megatron
