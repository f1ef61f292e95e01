// SPDX-License-Identifier: Apache-2.0
#include "formats/megatron/new_objects.hpp"

#include "formats/driver.hpp"
#include "formats/encodings/archive_at.hpp"
#include "formats/megatron/dist_checkpointing.hpp"
#include "formats/megatron/rank_files.hpp"
#include "formats/megatron/rank_grid.hpp"
#include "formats/settings/args_layout.hpp"
#include "formats/state/rng_states.hpp"
#include "lib/core/error.hpp"

#include <algorithm>
#include <cctype>
#include <map>
#include <set>
#include <string>

namespace tpx::formats::megatron {
namespace {

using torch::Document;
using torch::Value;

/// The places of RNG states in `layout`, by the names of their objects.
std::map<std::string, RngPlace> rng_objects(const Layout& layout) {
    std::map<std::string, RngPlace> objects;
    for (const RngPlace& place : rng_places(layout)) objects.try_emplace(rng_object_name(place, layout), place);
    return objects;
}

/// The root of an archive that stores `value`.
Value in_form(ObjectForm form, Document& document, Value value) {
    return form == ObjectForm::bare ? value : document.list(std::vector<Value>{value});
}

/// Adds an object of the source, after converting it to `form` if the source stores the other form.
void keep(const Catalogue& source, const Object& object, ObjectForm form, NewObjects& objects) {
    constexpr std::uint64_t most = std::uint64_t{1} << 30;
    if (object.bare == (form == ObjectForm::bare)) return objects.kept.push_back(object);
    if (object.length > most)
        throw failure("{}: object '{}': {} bytes, at most {} are carried over; try --drop optimizer",
                      source.path(object.file).string(), object.name, object.length, most);
    with_archive(source, object, [&](const torch::Archive& archive) {
        const Value list = archive.root();  // a list even if the source stores the bare value
        if (!list.is(torch::Kind::list) || list.items().size() != 1)
            throw failure("contains {}, not a list of one value", list.describe());
        const Value root = form == ObjectForm::bare ? list.items()[0] : list;
        objects.made.push_back({object.name, torch::write_archive(root, &archive)});
    });
}

void add_rng(const Content& content, ObjectForm form, NewObjects& objects) {
    const std::map<std::string, RngPlace> wanted = rng_objects(content.layout);
    std::set<std::string_view> there;
    for (const Object& object : content.source->catalogue.objects) there.insert(object.name);
    const bool all = std::ranges::all_of(wanted, [&](const auto& one) { return there.contains(one.first); });
    if (all) {
        for (const Object& object : content.source->catalogue.objects)
            if (wanted.contains(object.name)) keep(content.source->catalogue, object, form, objects);
        return;
    }
    const RngStates states{*content.source};
    if (states.empty()) return;
    for (const auto& [name, place] : wanted) {
        Document document;
        torch::Contents contents;
        const Value list = states.state(document, contents, place, content.layout);
        const Value root = in_form(form, document, list);
        objects.made.push_back({name, torch::frame_archive(root, {}, contents).runs.at(0)});
    }
}

/// A module with an FP8 extra state, and the numbers of layers and experts that its tensors stack.
struct Module {
    std::string name;
    std::vector<Index> stack;
};

/// The name of the weight if `name` is that of one of its parts, such as "in_proj.weight.x"; otherwise `name`.
std::string without_part(const std::string& name) {
    for (const std::string_view part : {".in_proj.weight.x", ".in_proj.weight.query"})
        if (name.ends_with(part)) return name.substr(0, name.rfind('.'));
    return name;
}

/// The modules with extra states to which `tensor` belongs. Linear layers have an extra state in Megatron's own layers
/// and in TransformerEngine's; norms and attention have one in some versions of TransformerEngine. Megatron does not
/// load a checkpoint that lacks an extra state of its model, and ignores those that its model lacks.
std::vector<Module> modules_of(const Tensor& tensor) {
    constexpr std::size_t before_number = std::string_view{"decoder.layers."}.size();
    constexpr std::string_view outer = "language_model.";
    const std::string stored = without_part(tensor.name);
    const std::string before{stored.starts_with(outer) ? outer : ""};
    const std::string name = stored.substr(before.size());
    const bool in_layers = name.starts_with("decoder.layers.") || name.starts_with("encoder.layers.");
    if (stored == "multi_modal_projector.proj.weight") return {{"multi_modal_projector.proj", {1}}};  // of Gemma 3
    // BERT and T5 store an extra state of the output layer, which has no weight if it is tied; T5 stores it twice.
    if (name == "output_layer.bias" || name == "lm_head.output_layer.bias")
        return {{name.substr(0, name.rfind('.')), {1}}};
    if (name == "lm_head.output_layer.weight") return {{"lm_head.output_layer", {1}}, {"output_layer", {1}}};
    // Mamba hybrids, whose last norm has this name, store one, too, whether the output layer is tied or not.
    if (name == "decoder.final_norm.weight")
        return {{before + "decoder.final_norm", {1}}, {before + "output_layer", {1}}};
    const bool in_stack = name.starts_with("decoder.") || name.starts_with("encoder.") || name.starts_with("mtp.");
    if (!name.ends_with(".weight") || !in_stack) return {};
    Module module{.name = before + name.substr(0, name.rfind('.')), .stack = {}};
    const std::string last = module.name.substr(module.name.rfind('.') + 1);
    if (!is_linear_module(last) && !last.ends_with("norm")) return {};
    const bool stacked = in_layers && std::isdigit(static_cast<unsigned char>(name[before_number])) == 0;
    const std::size_t axes = (stacked ? 1u : 0u) + (name.find(".experts.experts.") != name.npos ? 1u : 0u);
    for (std::size_t k = 0; k < axes; ++k) module.stack.push_back(tensor.shape[static_cast<int>(k)]);
    if (module.stack.empty()) module.stack.push_back(1);
    if (last != "linear_proj") return {module};
    return {module, {module.name.substr(0, module.name.rfind('.')) + ".core_attention", module.stack}};
}

void add_extra_states(const Content& content, ObjectForm form, NewObjects& objects) {
    Document document;
    const std::string none = torch::write_archive(in_form(form, document, Value{}));
    for (const Tensor& tensor : content.tensors) {
        for (const auto& [module, stack] : modules_of(tensor)) {
            std::vector<Index> at(stack.size(), 0);
            while (true) {
                objects.made.push_back(
                    {fmt::format("{}._extra_state/shard_{}_{}", module, fmt::join(at, "."), fmt::join(stack, ".")),
                     none});
                std::size_t k = at.size();
                while (k > 0 && ++at[k - 1] == stack[k - 1]) at[--k] = 0;
                if (k == 0) break;
            }
        }
    }
}

}  // namespace

bool is_linear_module(std::string_view name) {
    return name.starts_with("linear_") || name == "eh_proj" || name == "in_proj" || name == "out_proj";
}

Layout source_layout(const Checkpoint& source) {
    if (source.rank_files) return source.rank_files->layout;
    return layout_of_args(source.config, {});
}

bool same_ranks(const Layout& a, const Layout& b) {
    return a.tp == b.tp && a.pp == b.pp && a.cp == b.cp && a.dp == b.dp && a.ep == b.ep &&
           expert_tp(a) == expert_tp(b) && a.order == b.order;
}

NewObjects new_objects(const Content& content, ObjectForm form) {
    NewObjects objects;
    if (content.source == nullptr) return objects;
    const bool same_kind = stores_megatron_tensors(*content.source->format);
    if (same_kind) {
        const bool same = same_ranks(source_layout(*content.source), content.layout);
        for (const Object& object : content.source->catalogue.objects) {
            const bool of_ranks = object.name.starts_with("rerun_state_machine");
            if (!object.name.starts_with("rng_state/") && (same || !of_ranks))
                keep(content.source->catalogue, object, form, objects);
        }
    }
    if (!same_kind) add_extra_states(content, form, objects);
    add_rng(content, form, objects);
    return objects;
}

}  // namespace tpx::formats::megatron
