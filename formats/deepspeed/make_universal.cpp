// SPDX-License-Identifier: Apache-2.0
#include "formats/deepspeed/deepspeed.hpp"
#include "formats/deepspeed/model_file.hpp"
#include "formats/deepspeed/step_draft.hpp"
#include "formats/deepspeed/stored_optimizer.hpp"
#include "formats/encodings/torch/tensor_value.hpp"
#include "formats/state/roles.hpp"
#include "lib/core/error.hpp"

#include <algorithm>
#include <bit>
#include <cstring>
#include <set>
#include <string_view>

namespace tpx::formats {
namespace {

using namespace deepspeed;
using torch::Document;
using torch::Entry;
using torch::Value;
namespace fs = std::filesystem;

/// The DeepSpeed version whose file layout this is.
constexpr std::string_view version = "0.19.8";

/// A parameter group of the source or, if its groups are unknown, parameters with equal optimizer settings.
struct MadeGroup {
    AdamSettings settings;
    int number = -1;  ///< in the source; -1: unknown
    ParameterGroup parameters;
};

/// Makes a universal checkpoint of tensors that DeepSpeed did not write.
class UniversalMaker {
public:
    UniversalMaker(const Content& content, std::vector<std::string>& notes)
        : content_{content}, notes_{notes}, draft_{content}, zero3_{content.layout.zero == 3} {
        steps_ = content.source->iteration.value_or(content.adam->step);
        folder_ = fmt::format("global_step{}_universal", steps_);
    }

    Draft make() {
        find_groups();
        add_model();
        for (const MadeGroup& group : groups_)
            for (const auto& [name, shape] : group.parameters) add_parameter(name, shape);
        add_optimizer();
        draft_.add_text("latest_universal", folder_.string());
        add_note();
        return draft_.finish();
    }

private:
    Role role(std::size_t t) const { return content_.reading->meanings[t].role; }

    /// Groups are in the order of the source. If that is unknown, groups with the highest weight decay come first, as
    /// in most trainers; otherwise groups are in the order of their parameters.
    void find_groups() {
        for (std::size_t t = 0; t < content_.tensors.size(); ++t) {
            if (role(t) != Role::exp_avg) continue;
            const Tensor& moment = content_.tensors[t];
            if (moment.name.find(".deepspeed_experts.") != moment.name.npos)
                throw Error{
                    Exit::usage,
                    "tensor '{}': universal checkpoints do not hold experts of DeepSpeed's MoE layers: each rank "
                    "would load those of the first",
                    moment.name};
            const AdamSettings& settings = content_.adam->of(moment.name, moment.shape.size());
            const auto recorded = content_.adam->groups.find(moment.name);
            const int number = recorded == content_.adam->groups.end() ? -1 : recorded->second;
            auto group = std::ranges::find_if(
                groups_, [&](const MadeGroup& known) { return known.settings == settings && known.number == number; });
            if (group == groups_.end()) group = groups_.insert(group, {settings, number, {}});
            group->parameters.emplace_back(parameter_of(moment.name), moment.shape);
        }
        std::ranges::stable_sort(groups_, [](const MadeGroup& a, const MadeGroup& b) {
            if (a.number != b.number) return a.number < b.number;
            return a.settings.weight_decay > b.settings.weight_decay;
        });
    }

    void put(const StepDraft::Placed& placed, const std::string& key, std::uint32_t tensor) {
        const Shape& shape = draft_[tensor].shape;
        draft_.pieces().push_back({.tensor = tensor,
                                   .file = placed.file,
                                   .offset = placed.storages.at(key).offset,
                                   .box = whole(shape),
                                   .strides = row_major(shape),
                                   .rank = 0});
    }

    void add_parameter(const std::string& name, const Shape& shape) {
        const fs::path folder = folder_ / "zero" / name;
        for (const char* state : {"fp32", "exp_avg", "exp_avg_sq"}) {
            const std::uint32_t tensor = draft_.tensor(fmt::format("{}/{}", name, state));
            Document document;
            Value value =
                torch::make_tensor(document, draft_[tensor].dtype, zero3_ ? Shape{volume(shape)} : shape, "0");
            if (!zero3_) {
                const Entry described[]{{document.string("cat_dim"), document.integer(0)},
                                        {document.string("param"), value}};
                value = document.dict(described);
            }
            put(draft_.add(folder / fmt::format("{}.pt", state), value, nullptr, {}), "0", tensor);
        }
        if (zero3_) return;  // add_optimizer() adds its steps
        Document document;
        draft_.add(folder / "step.pt", torch::make_tensor(document, DType::f32, {}, "0"), nullptr, {},
                   {{"0", step_bytes()}});
    }

    std::string step_bytes() const {
        static_assert(std::endian::native == std::endian::little);
        const auto step = static_cast<float>(content_.adam->step);
        std::string bytes(sizeof step, '\0');
        std::memcpy(bytes.data(), &step, sizeof step);
        return bytes;
    }

    /// The number of steps, in the form that DeepSpeed's and PyTorch's schedulers load.
    Value schedule(Document& document) const {
        const Entry entries[]{{document.string("last_batch_iteration"), document.integer(steps_ - 1)},
                              {document.string("last_epoch"), document.integer(steps_)}};
        return document.dict(entries);
    }

    Value settings_of_run(DType training, Document& document) const {
        const auto nested = [&](const char* key, const char* inner, Value value) {
            const Entry entry{document.string(inner), value};
            return Entry{document.string(key), document.dict({&entry, 1})};
        };
        std::vector<Entry> config{nested("zero_optimization", "stage", document.integer(zero3_ ? 3 : 1))};
        if (training == DType::bf16) config.push_back(nested("bf16", "enabled", Value::boolean(true)));
        if (training == DType::f16) config.push_back(nested("fp16", "enabled", Value::boolean(true)));
        return document.dict(config);
    }

    Value shapes(Document& document) const {
        std::vector<Value> items;
        for (const MadeGroup& group : groups_) {
            const Value shapes = torch::make_ordered_dict(document);
            for (const auto& [name, shape] : group.parameters) {
                const Entry entry{document.string(name), document.size({shape.begin(), std::size_t(shape.size())})};
                document.insert(shapes, {&entry, 1});
            }
            items.push_back(shapes);
        }
        return document.list(items);
    }

    /// Adds the model file with the weights; weights without optimizer state are listed as buffers.
    void add_model() {
        Document document;
        const Value module = torch::make_ordered_dict(document);
        std::vector<Value> buffers;
        std::map<std::string, std::uint32_t> weights;
        DType training = DType::f32;
        for (std::uint32_t t = 0; t < content_.tensors.size(); ++t) {
            if (role(t) != Role::weight) continue;
            const Tensor& tensor = content_.tensors[t];
            const std::string key = std::to_string(weights.size());
            weights.emplace(key, t);
            const Entry entry{document.string(tensor.name),
                              torch::make_tensor(document, tensor.dtype, tensor.shape, key)};
            document.insert(module, {&entry, 1});
            if (draft_.has(tensor.name + "/exp_avg"))
                training = tensor.dtype;
            else
                buffers.push_back(document.string(tensor.name));
        }
        const Value one = document.integer(1);
        const Entry dimensions[]{{document.string("pp_degree"), one}, {document.string("tp_degree"), one}};
        const std::vector<std::pair<const char*, Value>> entries{
            {"module", module},
            {"buffer_names", document.list(buffers)},
            {"optimizer", {}},
            {"param_shapes", shapes(document)},
            {"frozen_param_shapes", {}},
            {"frozen_param_fragments", {}},
            {"shared_params", document.dict()},
            {"lr_scheduler", schedule(document)},
            {"skipped_steps", document.integer(0)},
            {"global_steps", document.integer(steps_)},
            {"dp_world_size", one},
            {"mp_world_size", one},
            {"checkpoint_parallel_dimensions", document.dict(dimensions)},
            {"ds_config", settings_of_run(training, document)},
            {"ds_version", document.string(version)},
            {made_from_key, document.string(name(content_.source->format))}};
        const StepDraft::Placed placed =
            draft_.add(folder_ / (zero3_ ? "zero_pp_rank_0_mp_rank_00_model_states.pt" : "mp_rank_00_model_states.pt"),
                       dict(entries, document), nullptr, {});
        for (const auto& [key, tensor] : weights) put(placed, key, tensor);
    }

    static Value dict(const std::vector<std::pair<const char*, Value>>& items, Document& document) {
        std::vector<Entry> entries;
        for (const auto& [key, value] : items) entries.push_back({document.string(key), value});
        return document.dict(entries);
    }

    Value param_groups(Document& document) const {
        std::vector<Value> items;
        for (const MadeGroup& group : groups_) {
            const AdamSettings& settings = group.settings;
            const Value betas[]{document.real(settings.beta1), document.real(settings.beta2)};
            const Value number = document.integer(static_cast<std::int64_t>(items.size()));
            items.push_back(dict({{"lr", document.real(settings.lr)},
                                  {"betas", document.tuple(betas)},
                                  {"eps", document.real(settings.eps)},
                                  {"weight_decay", document.real(settings.weight_decay)},
                                  {"initial_lr", document.real(settings.initial_lr)},
                                  {"params", document.list({&number, 1})}},
                                 document));
        }
        return document.list(items);
    }

    /// Adds the optimizer's settings. ZeRO 3 needs them as in a PyTorch optimizer's state dict, with the step of each
    /// group.
    void add_optimizer() {
        Document document;
        std::vector<std::pair<const char*, Value>> entries{{"dynamic_loss_scale", Value::boolean(false)},
                                                           {"overflow", Value::boolean(false)},
                                                           {"zero_stage", document.integer(zero3_ ? 3 : 1)},
                                                           {"ds_version", document.string(version)}};
        std::map<std::string, std::string> small;
        if (zero3_) {
            std::vector<Entry> states;
            for (std::size_t g = 0; g < groups_.size(); ++g) {
                const std::string key = std::to_string(g);
                small.emplace(key, step_bytes());
                const Entry step{document.string("step"), torch::make_tensor(document, DType::f32, {}, key)};
                states.push_back({document.integer(static_cast<std::int64_t>(g)), document.dict({&step, 1})});
            }
            entries.emplace_back("partition_count", document.integer(1));
            entries.emplace_back(
                "optimizer_state_dict",
                dict({{"state", document.dict(states)}, {"param_groups", param_groups(document)}}, document));
        } else {
            std::vector<Value> ones(groups_.size(), document.integer(1));
            entries.emplace_back("partition_count", document.list(ones));
            entries.emplace_back("param_groups", param_groups(document));
        }
        draft_.add(folder_ / "zero/optimizer_state.pt", dict(entries, document), nullptr, {}, small);
    }

    void add_note() {
        std::vector<std::string> texts;
        for (const MadeGroup& group : groups_)
            texts.push_back(fmt::format("{} with weight_decay {} and lr {}", group.parameters.size(),
                                        group.settings.weight_decay, group.settings.lr));
        notes_.push_back(
            fmt::format("parameter groups: {}; DeepSpeed loads these settings into the engine's groups in this order, "
                        "and none into additional groups",
                        fmt::join(texts, ", ")));
    }

    const Content& content_;
    std::vector<std::string>& notes_;
    StepDraft draft_;
    bool zero3_;
    std::int64_t steps_ = 0;
    fs::path folder_;
    std::vector<MadeGroup> groups_;
};

/// Whether each parameter with Adam's first moment also has the second; Lion has only the first.
bool has_both_moments(const Content& content) {
    std::set<std::string_view> names;
    for (const Tensor& tensor : content.tensors) names.insert(tensor.name);
    for (std::size_t t = 0; t < content.tensors.size(); ++t) {
        if (content.reading->meanings[t].role != Role::exp_avg) continue;
        if (!names.contains(fmt::format("{}_sq", content.tensors[t].name))) return false;
    }
    return true;
}

}  // namespace

Draft make_universal(const Content& content, std::vector<std::string>& notes) {
    if (!content.adam || !has_both_moments(content))
        throw Error{Exit::usage,
                    "universal checkpoints store the state of optimizers like Adam (exp_avg and exp_avg_sq), which the "
                    "source does not have; convert the weights with --format safetensors and load them as the model"};
    return UniversalMaker{content, notes}.make();
}

}  // namespace tpx::formats
