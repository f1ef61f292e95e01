// SPDX-License-Identifier: Apache-2.0
#include "formats/deepspeed/model_draft.hpp"

#include "formats/deepspeed/pipeline.hpp"
#include "formats/deepspeed/resharded_info.hpp"
#include "formats/encodings/torch/tensor_value.hpp"
#include "lib/core/error.hpp"

#include <algorithm>
#include <array>

namespace tpx::formats::deepspeed {

using torch::Document;
using torch::Entry;
using torch::Kind;
using torch::Value;
namespace fs = std::filesystem;

class ModelDraft::Slices {
public:
    Slices(StepJob& job, int t, const torch::Archive* from) : job_{job}, t_{t}, keys_{from} {}

    Document document;
    int tensor_rank() const { return t_; }

    /// The rank's slice of a parameter. Repeated calls return the same value, because parameters may be shared.
    Value slice(const std::string& parameter) {
        const auto known = whole_.find(parameter);
        if (known != whole_.end()) return known->second;
        const Shape& shape = job_.target.parameter(parameter).locals[t_];
        return whole_[parameter] = add(parameter, shape, {0, volume(shape)});
    }

    /// Elements `range` of the slice, followed by zeros up to `length`.
    Value range(const std::string& parameter, Interval range, Index length) { return add(parameter, {length}, range); }

    /// The empty tensor that represents a parameter in a module under ZeRO 3.
    Value placeholder(const std::string& parameter) {
        return torch::make_tensor(document, dtype_of(parameter), {0}, keys_.next());
    }

    void fill(const StepDraft::Placed& placed, int rank) const {
        for (const Filled& filled : filled_)
            job_.add_pieces(filled.parameter, filled.parameter, t_, placed.file, placed.storages.at(filled.key).offset,
                            filled.range, rank);
    }

private:
    struct Filled {
        std::string parameter;
        std::string key;
        Interval range;
    };

    DType dtype_of(const std::string& parameter) const { return job_.draft[job_.draft.tensor(parameter)].dtype; }

    Value add(const std::string& parameter, const Shape& shape, Interval range) {
        filled_.push_back({parameter, keys_.next(), range});
        return torch::make_tensor(document, dtype_of(parameter), shape, filled_.back().key);
    }

    StepJob& job_;
    int t_;
    NewKeys keys_;
    std::map<std::string, Value> whole_;
    std::vector<Filled> filled_;
};

namespace {

/// A dict of the same kind as `old` with other entries. OrderedDicts keep their state, in which modules record
/// metadata.
Value with_values(Value old, const std::vector<Entry>& entries, Document& document) {
    if (!old.is(Kind::object)) return document.dict(entries);
    const Value made = torch::make_ordered_dict(document);
    document.insert(made, entries);
    if (!old.as_object().state.is_none()) document.set_state(made, old.as_object().state);
    return made;
}

Value shapes_of(const ParameterGroup& group, Document& document) {
    const Value dict = torch::make_ordered_dict(document);
    for (const auto& [name, shape] : group) {
        const Entry entry{document.string(name), document.size({shape.begin(), std::size_t(shape.size())})};
        document.insert(dict, {&entry, 1});
    }
    return dict;
}

/// The parameter of a module's entry, which may be shared; "" for a buffer.
std::string parameter_of_entry(const WriterGrid& grid, const ModelFile& model, const std::string& name) {
    if (grid.parameters.contains(name)) return name;
    const auto shared = model.shared.find(name);
    return shared != model.shared.end() && grid.parameters.contains(shared->second) ? shared->second : "";
}

/// The parameter of entry `key` in a layer's file; "" for a buffer.
std::string parameter_of_layer(const WriterGrid& grid, int layer, std::string_view key) {
    const std::string own = fmt::format("{}.{}", layer, key);
    if (grid.parameters.contains(own)) return own;
    const std::string ending = fmt::format(".{}", key);
    for (const auto& [name, parameter] : grid.parameters)
        if (is_tied(name) && name.ends_with(ending) &&
            name.find('.', std::string_view{"tied_modules."}.size()) + ending.size() == name.size())
            return name;
    return "";
}

/// `object` with an existing attribute or entry set to `number`.
Value with_number(Value object, std::string_view name, std::int64_t number, Document& document) {
    if (object.is(Kind::dict))
        return object.find(name) ? document.with_key(object, name, document.integer(number)) : object;
    if (!object.is(Kind::object)) return object;
    const auto old = object.attribute(name);
    return old && old->is(Kind::integer) ? document.with_attribute(object, name, document.integer(number)) : object;
}

/// Megatron-DeepSpeed's `args` with the new layout.
Value with_layout(Value args, const StepJob& job, Document& document) {
    const Layout& layout = job.layout;
    args = with_number(args, "tensor_model_parallel_size", layout.tp, document);
    args = with_number(args, "pipeline_model_parallel_size", layout.pp, document);
    args = with_number(args, "data_parallel_size", layout.dp, document);
    args = with_number(args, "world_size", layout.ranks(), document);
    if (job.target.padded_rows()) args = with_number(args, "padded_vocab_size", *job.target.padded_rows(), document);
    return args;
}

Value with_stage(Value root, int stage, Document& document) {
    const auto config = root.find("ds_config");
    if (!config || !config->is(Kind::dict)) return root;
    const auto zero = config->find("zero_optimization");
    if (!zero || !zero->is(Kind::dict)) return root;
    const Value staged = document.with_key(*zero, "stage", document.integer(stage));
    return document.with_key(root, "ds_config", document.with_key(*config, "zero_optimization", staged));
}

}  // namespace

void ModelDraft::add(int stage, int t, int d) {
    const ModelFile& model = job_.old_model(stage, t);
    in_context([&] { return model.path.string(); },
               [&] {
                   Slices slices{job_, t, &model.archive};
                   Value root = edited_root(model, stage, t, d, slices.document);
                   root = with_weights(model, root, slices);
                   root = with_frozen(model, root, slices, d);
                   const std::string rank = fmt::format("mp_rank_{:02}_model_states.pt", stage * job_.layout.tp + t);
                   const std::string data = job_.zero3() ? fmt::format("zero_pp_rank_{}_", d) : "";
                   slices.fill(job_.draft.add(job_.folder / (data + rank), root, &model.archive, model.path),
                               job_.rank(stage, t, d));
               });
}

/// The root of `model` with updated layout information.
Value ModelDraft::edited_root(const ModelFile& model, int stage, int t, int d, Document& document) const {
    const Layout& layout = job_.layout;
    Value root = document.with_key(model.root(), "dp_world_size", document.integer(layout.dp));
    std::vector<ParameterGroup> groups;
    for (RankGroupPart& group : job_.rank_groups(stage, t, d)) groups.push_back(std::move(group.parameters));
    if (groups != model.groups) {
        std::vector<Value> items;
        for (const ParameterGroup& group : groups) items.push_back(shapes_of(group, document));
        root = document.with_key(root, "param_shapes", document.list(items));
    }
    if (layout.zero != job_.old_zero) root = with_stage(root, layout.zero, document);
    if (job_.zero3() && d > 0 && root.find("shared_params"))  // only the first rank records them
        root = document.with_key(root, "shared_params", document.dict());
    if (const auto args = root.find("args")) root = document.with_key(root, "args", with_layout(*args, job_, document));
    if (layout.tp == job_.grid.tp && layout.pp == job_.grid.pp) return root;
    root = document.with_key(root, "mp_world_size", document.integer(layout.tp * layout.pp));
    const Entry dimensions[]{{document.string("pp_degree"), document.integer(layout.pp)},
                             {document.string("tp_degree"), document.integer(layout.tp)}};
    root = document.with_key(root, "checkpoint_parallel_dimensions", document.dict(dimensions));
    if (const auto info = root.find("universal_checkpoint_info"); info && layout.tp != job_.grid.tp)
        root = document.with_key(root, "universal_checkpoint_info", info_for_ranks(document, *info, layout.tp));
    if (const auto info = root.find("universal_checkpoint_info"); info && job_.target.padded_rows())
        root = document.with_key(root, "universal_checkpoint_info",
                                 with_number(*info, "padded_vocab_size", *job_.target.padded_rows(), document));
    return root;
}

/// `root` with the module's parameters replaced, if they are resharded or stored in another way.
Value ModelDraft::with_weights(const ModelFile& model, Value root, Slices& slices) const {
    const auto module = root.find("module");
    const bool as_before = job_.layout.tp == job_.grid.tp && job_.zero3() == job_.grid.zero3;
    if (!module || module->is_none() || as_before) return root;
    std::vector<Entry> entries;
    for (Entry entry : module->entries()) {
        const std::string name{entry.key.as_string()};
        const std::string parameter = parameter_of_entry(job_.grid, model, name);
        if (!parameter.empty()) entry.value = job_.zero3() ? slices.placeholder(parameter) : slices.slice(parameter);
        entries.push_back(entry);
    }
    return slices.document.with_key(root, "module", with_values(*module, entries, slices.document));
}

/// `root` with updated frozen parameters: ZeRO 1 stores them only in the module, ZeRO 2 also lists them, ZeRO 3 splits
/// them across ranks.
Value ModelDraft::with_frozen(const ModelFile& model, Value root, Slices& slices, int d) const {
    Document& document = slices.document;
    if (model.frozen.empty()) {
        // None instead of an empty dict would mean that frozen parameters were excluded.
        const auto shapes = root.find("frozen_param_shapes");
        if (job_.old_zero > 1 || job_.layout.zero < 2 || !shapes || !shapes->is_none()) return root;
        root = document.with_key(root, "frozen_param_shapes", torch::make_ordered_dict(document));
        return document.with_key(root, "frozen_param_fragments", torch::make_ordered_dict(document));
    }
    ParameterGroup locals = model.frozen;
    for (auto& [name, shape] : locals) shape = job_.target.parameter(name).locals[slices.tensor_rank()];
    const bool as_before = job_.layout.tp == job_.grid.tp && job_.layout.zero == job_.old_zero;
    if (as_before && !job_.zero3()) return root;
    const Value shapes = job_.layout.zero == 1 ? Value{} : shapes_of(locals, document);
    root = document.with_key(root, "frozen_param_shapes", shapes);
    if (job_.layout.zero == 1) return document.with_key(root, "frozen_param_fragments", {});
    const Value fragments = torch::make_ordered_dict(document);
    for (const auto& [name, shape] : locals) {
        const Index part = part_of_parameter(volume(shape), job_.layout.dp);
        const Entry entry{document.string(name),
                          job_.zero3()
                              ? slices.range(name, intersect({d * part, (d + 1) * part}, {0, volume(shape)}), part)
                              : root.at("module").at(name)};
        document.insert(fragments, {&entry, 1});
    }
    return document.with_key(root, "frozen_param_fragments", fragments);
}

// Pipelines store one file for each layer, regardless of the stage.

fs::path ModelDraft::layer_file(int layer, int t) const {
    const auto& old = job_.grid.files.layers;
    const bool short_name = job_.layout.tp == 1 && !old.empty() &&
                            old.begin()->second.filename().string().find("-model_states") != std::string::npos &&
                            old.begin()->second.filename().string().find("-model_0") == std::string::npos;
    const std::string rank = short_name ? "" : fmt::format("-model_{:02}", t);
    return job_.folder / fmt::format("layer_{:02}{}-model_states.pt", layer, rank);
}

void ModelDraft::add_layers() {
    const WriterGrid& grid = job_.grid;
    const auto module = grid.models[0].root().find("module");
    const bool is_pipeline = !module || module->is_none();
    if (grid.files.layers.empty() && is_pipeline && !job_.zero3()) return make_layers();
    for (const auto& [key, path] : grid.files.layers) {
        if (job_.layout.tp == grid.tp)
            job_.draft.add_copy(job_.folder / path.filename(), path);
        else if (key.second == 0)
            for (int t = 0; t < job_.layout.tp; ++t) cut_layer(key.first, path, t);
    }
}

void ModelDraft::cut_layer(int layer, const fs::path& path, int t) {
    const torch::Archive archive = torch::Archive::open(path);
    Slices slices{job_, t, &archive};
    std::vector<Entry> entries;
    for (Entry entry : archive.root().entries()) {
        const std::string parameter = parameter_of_layer(job_.grid, layer, entry.key.as_string());
        if (!parameter.empty()) entry.value = slices.slice(parameter);
        entries.push_back(entry);
    }
    const Value root = with_values(archive.root(), entries, slices.document);
    slices.fill(job_.draft.add(layer_file(layer, t), root, &archive, path), t);
}

/// Creates layer files from the names of parameters, because universal checkpoints of pipelines have no such files.
void ModelDraft::make_layers() {
    std::map<int, std::vector<std::string>> layers;
    std::vector<std::string> tied;
    for (const auto& [name, parameter] : job_.grid.parameters) {
        if (const auto layer = layer_of(name))
            layers[*layer].push_back(name);
        else if (is_tied(name))
            tied.push_back(name);
        else
            throw failure("tensor '{}': belongs to no pipeline layer", name);
    }
    if (!tied.empty() && (layers.empty() || layers.begin()->first == 0))
        throw failure("tensor '{}': no number is free before the first layer for parameters that layers share",
                      tied[0]);
    if (!tied.empty()) layers[layers.begin()->first - 1] = tied;
    for (const auto& [layer, names] : layers) {
        for (int t = 0; t < job_.layout.tp; ++t) {
            Slices slices{job_, t, nullptr};
            const Value root = torch::make_ordered_dict(slices.document);
            for (const std::string& name : names) {
                const auto begin = is_tied(name) ? name.find('.', name.find('.') + 1) + 1 : name.find('.') + 1;
                const Entry entry{slices.document.string(name.substr(begin)), slices.slice(name)};
                slices.document.insert(root, {&entry, 1});
            }
            slices.fill(job_.draft.add(layer_file(layer, t), root, nullptr, {}), t);
        }
    }
}

void ModelDraft::add_experts() {
    const auto& experts = job_.grid.files.experts;
    if (!experts.empty() && (job_.layout.tp != job_.grid.tp || job_.layout.pp != job_.grid.pp))
        throw Error{Exit::usage, "layout: tp and pp cannot change in a checkpoint with DeepSpeed MoE layers"};
    for (const auto& [key, path] : experts) job_.draft.add_copy(job_.folder / path.filename(), path);
}

}  // namespace tpx::formats::deepspeed
