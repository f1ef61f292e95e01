// SPDX-License-Identifier: Apache-2.0
#include "formats/megatron/rank_model.hpp"

#include "formats/megatron/old_names.hpp"
#include "formats/state/extra_state.hpp"
#include "lib/core/error.hpp"

#include <set>
#include <string>

namespace tpx::formats::megatron {
namespace {

using torch::Kind;
using torch::Value;

/// The state dicts of the model chunks.
std::vector<Value> chunks_of(Value root) {
    if (const auto model = root.find("model")) return {*model};
    std::vector<Value> chunks;
    while (const auto model = root.find(fmt::format("model{}", chunks.size()))) chunks.push_back(*model);
    if (chunks.empty()) throw failure("found neither 'model' nor 'model0'");
    return chunks;
}

class ModelReader {
public:
    ModelReader(RankDirectory& directory, const torch::Archive& archive, std::uint32_t file)
        : directory_{directory}, archive_{archive}, file_{file} {}

    void read(Value chunk, int number) {
        layers_.clear();
        for (const ModelEntry& entry : entries_of(chunk)) {
            if (entry.value.is_none()) continue;
            if (entry.name.ends_with("_extra_state")) {
                if (!is_empty_extra_state(entry.value, archive_)) directory_.extra_states.push_back(entry.name);
                continue;
            }
            in_context([&] { return fmt::format("tensor '{}'", entry.name); },
                       [&] { add(entry.name, entry.value, number); });
            if (entry.fused_qkv) directory_.tensors.back().rows = qkv_rows_;
        }
        if (!layers_.empty() && *layers_.rbegin() != static_cast<int>(layers_.size()) - 1)
            throw failure("model chunk {} has {} layers, and one of number {}", number, layers_.size(),
                          *layers_.rbegin());
        directory_.layers.push_back(static_cast<int>(layers_.size()));
    }

    /// Reads the order of the fused rows, which Megatron permutes when it loads old checkpoints. The version defaults
    /// to 0.
    void read_version() {
        const auto version = archive_.root().find("checkpoint_version");
        qkv_rows_ = row_order(version ? version->as_real() : 0);
    }

private:
    std::vector<ModelEntry> entries_of(Value chunk) {
        if (has_old_names(chunk)) {
            read_version();
            directory_.old_names = true;
            return entries_by_old_names(chunk);
        }
        std::vector<ModelEntry> entries;
        for (const auto& [key, value] : chunk.entries()) {
            if (!key.is(Kind::string)) throw failure("model: a key is {}", key.describe());
            entries.push_back({std::string{key.as_string()}, value});
        }
        return entries;
    }

    void add(const std::string& name, Value value, int chunk) {
        const auto stored = archive_.tensor(value);
        if (!stored) throw failure("{}, not a tensor", value.describe());
        if (stored->compressed || stored->conjugated || stored->negated)
            throw failure("its elements cannot be moved as they are");
        if (itemsize(stored->dtype) == 0) throw failure("elements of dtype {}", tpx::name(stored->dtype));
        const RankName parsed = parse_rank_name(name, {});
        if (parsed.layer >= 0) layers_.insert(parsed.layer);
        directory_.tensors.push_back({.name = name,
                                      .chunk = chunk,
                                      .dtype = stored->dtype,
                                      .shape = stored->shape,
                                      .strides = stored->strides,
                                      .file = file_,
                                      .offset = stored->offset});
    }

    RankDirectory& directory_;
    const torch::Archive& archive_;
    std::uint32_t file_;
    std::set<int> layers_;
    RowOrder qkv_rows_ = RowOrder::by_head;
};

}  // namespace

void read_model(RankDirectory& directory, const torch::Archive& archive, std::uint32_t file, const Config&) {
    ModelReader reader{directory, archive, file};
    int number = 0;
    for (const Value chunk : chunks_of(archive.root())) reader.read(chunk, number++);
}

}  // namespace tpx::formats::megatron
