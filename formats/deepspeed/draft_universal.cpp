// SPDX-License-Identifier: Apache-2.0
#include "formats/deepspeed/deepspeed.hpp"
#include "formats/deepspeed/optimizer_tree.hpp"
#include "formats/deepspeed/step_draft.hpp"
#include "formats/deepspeed/stored_optimizer.hpp"
#include "formats/deepspeed/writer_grid.hpp"
#include "formats/driver.hpp"
#include "formats/encodings/torch/tensor_value.hpp"
#include "formats/state/roles.hpp"
#include "lib/core/error.hpp"

#include <algorithm>
#include <array>

namespace tpx::formats {
namespace {

using namespace deepspeed;
using torch::Document;
using torch::Entry;
using torch::Kind;
using torch::Value;
namespace fs = std::filesystem;

class UniversalDraft {
public:
    UniversalDraft(const Content& content, const DeepSpeedStep& source, std::vector<std::string>& notes)
        : content_{content},
          notes_{notes},
          universal_{source.universal},
          grid_{read_writer_grid(source.step)},
          folder_{source.step.filename().string() + (source.universal ? "" : "_universal")},
          draft_{content} {}

    Draft make() {
        check();
        for (std::uint32_t t = 0; t < content_.tensors.size(); ++t)
            if (is_state(content_.tensors[t].name))
                in_context([&] { return fmt::format("tensor '{}'", content_.tensors[t].name); }, [&] { add_state(t); });
        add_optimizer_state();
        for (const auto& [key, path] : grid_.files.models) draft_.add_copy(folder_ / path.filename(), path);
        draft_.add_text("latest_universal", folder_.string());
        return draft_.finish();
    }

private:
    void check() const {
        if (grid_.files.optimizers.empty() && !universal_)
            throw failure("has no optimizer state, which a universal checkpoint requires");
        for (const auto& [name, parameter] : grid_.parameters) {
            if (name.find(".deepspeed_experts.") != name.npos)
                throw Error{Exit::usage,
                            "tensor '{}': universal checkpoints do not hold experts of DeepSpeed's MoE layers", name};
        }
    }

    /// Whether a tensor is state with its own file; under ZeRO 3, steps are stored with the optimizer's settings
    /// instead.
    bool is_state(const std::string& name) const {
        return name.find('/') != name.npos && !(grid_.zero3 && name.ends_with("/step"));
    }

    /// Whether tensors are stored flat and without metadata: under ZeRO 3 without tensor parallelism.
    bool flat() const { return grid_.zero3 && grid_.tp == 1; }

    void add_state(std::uint32_t t) {
        const Tensor& tensor = content_.tensors[t];
        const std::string parameter{parameter_of(tensor.name)};
        const std::string state = tensor.name.substr(parameter.size() + 1);
        const std::string key = NewKeys{nullptr}.next();
        Document document;
        const bool scalar = state == "step";
        const Shape shape = flat() && !scalar ? Shape{volume(tensor.shape)} : tensor.shape;
        Value root = torch::make_tensor(document, tensor.dtype, shape, key);
        if (!scalar && !flat()) root = described(document, parameter, root);
        const StepDraft::Placed placed = draft_.add(folder_ / "zero" / parameter / (state + ".pt"), root, nullptr, {});
        const auto& storage = placed.storages.at(key);
        draft_.pieces().push_back({.tensor = t,
                                   .file = placed.file,
                                   .offset = storage.offset,
                                   .box = whole(tensor.shape),
                                   .strides = row_major(tensor.shape),
                                   .rank = 0});
    }

    /// The tensor with the metadata that DeepSpeed needs to slice the parameter for other ranks.
    Value described(Document& document, const std::string& name, Value tensor) const {
        const auto found = grid_.parameters.find(name);
        if (found == grid_.parameters.end()) throw failure("belongs to no parameter");
        const Slicing& slicing = found->second.slicing;
        if (slicing.sub_parameters)
            throw failure("has sub-parameters of different sizes, which tpx cannot write to universal checkpoints");
        std::vector<Entry> entries;
        const auto add = [&](std::string_view key, Value value) { entries.push_back({document.string(key), value}); };
        if (slicing.cat_dim) add("cat_dim", document.integer(*slicing.cat_dim));
        if (slicing.halves) add("param_n_sub_params", document.integer(2));
        if (slicing.vocabulary) add("vocab_tensor", Value::boolean(true));
        add("param", tensor);
        return document.dict(entries);
    }

    /// Adds the state of the first rank's optimizer without its partitions, and the settings of its groups. If these
    /// are unknown, adds groups without settings, so that DeepSpeed keeps those of its own optimizer.
    void add_optimizer_state() {
        const StoredOptimizer origin = read_stored_optimizer(grid_, 0, universal_);
        Document document;
        constexpr std::array left{"base_optimizer_state", "param_slice_mappings", "single_partition_of_fp32_groups",
                                  "param_groups"};
        std::vector<Entry> entries;
        for (const Entry& entry : origin.tree.entries())
            if (!entry.key.is(Kind::string) || std::ranges::find(left, entry.key.as_string()) == left.end())
                entries.push_back(entry);
        if (origin.elastic)
            notes_.push_back(
                "the groups' settings (lr, weight decay) are unknown because of elastic_checkpoint; DeepSpeed keeps "
                "those of the optimizer that loads the checkpoint");
        entries.push_back({document.string("param_groups"), settings(origin, document)});
        draft_.add(folder_ / "zero/optimizer_state.pt", document.dict(entries), &origin.archive, origin.path);
    }

    Value settings(const StoredOptimizer& origin, Document& document) const {
        const Value base =
            origin.tree.find(grid_.zero3 ? "optimizer_state_dict" : "base_optimizer_state").value_or(Value{});
        const auto own = base.is(Kind::dict) ? base.find("param_groups") : origin.tree.find("param_groups");
        if (own) return *own;
        std::vector<const StoredGroup*> groups;
        std::vector<int> experts;
        for (const StoredGroup& group : origin.groups) {
            groups.push_back(&group);
            experts.push_back(group.expert_ranks);
        }
        return group_settings(groups, experts, std::vector<std::size_t>(groups.size(), 1), document);
    }

    const Content& content_;
    std::vector<std::string>& notes_;
    bool universal_;
    WriterGrid grid_;
    fs::path folder_;
    StepDraft draft_;
};

}  // namespace

Draft draft_universal(const Content& content, std::vector<std::string>& notes) {
    const DeepSpeedStep source = find_deepspeed(content.source->catalogue.directory);
    if (!content.source->format->has_param_groups)
        throw failure(
            "a universal checkpoint with DeepSpeed's model files can only be made from a DeepSpeed checkpoint");
    return UniversalDraft{content, source, notes}.make();
}

}  // namespace tpx::formats
