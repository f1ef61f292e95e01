// SPDX-License-Identifier: Apache-2.0
#include "formats/driver.hpp"
#include "formats/encodings/torch/tree_copy.hpp"
#include "formats/torch/flat_groups.hpp"
#include "formats/torch/state_tree.hpp"
#include "formats/torch/torch_file.hpp"
#include "formats/torch/torch_file_writer.hpp"
#include "lib/core/error.hpp"

#include <algorithm>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <unordered_set>
#include <vector>

namespace tpx::formats {
namespace {

using torch::Archive;
using torch::Kind;
using torch::Value;

/// The tensor inside a parameter, or the value itself.
Value without_parameter(Value value) {
    while (value.class_name().starts_with("_rebuild_parameter")) {
        const auto args = value.as_object().args.items();
        if (args.empty() || !Archive::is_tensor(args[0])) return value;
        value = args[0];
    }
    return value;
}

/// Copies the objects of a torch.save file and replaces its tensors.
class SameTree {
public:
    /// `training` are training_tensors(archive).
    SameTree(const Archive& archive, const TrainingTensors& training, TorchFileWriter& file)
        : archive_{archive},
          vectors_{training.vectors},
          file_{file},
          tree_{file.document(), true},
          carried_{file.document(), file.contents()} {
        for (const torch::NamedValue& named : archive.tensor_values())
            names_.try_emplace(without_parameter(named.value), named.name);
    }

    Value copy() {
        return tree_.copy(archive_.root(), [&](Value value) { return replace(value); });
    }

private:
    using Items = std::span<const Value>;

    /// A function and its arguments.
    struct Call {
        Value callable;
        Value args;
    };

    std::optional<Value> replace(Value value) {
        if (!Archive::is_tensor(value) || without_parameter(value) != value) return std::nullopt;
        const auto name = names_.find(value);
        if (name == names_.end()) return carried_.carry(&archive_, value);
        const auto tensor = archive_.tensor(value);
        if (const auto vector = vectors_.find(name->second); vector != vectors_.end())
            return file_.vector(vector->second, tensor->requires_grad);
        const Value plain = file_.tensor(name->second, tensor->requires_grad);
        const Value& callable = value.as_object().callable;
        if (!torch::is_quantized(tensor->dtype) && value.class_name() != class_wrapper) return plain;
        const Call call = renewed(callable, value.as_object().args.items(), plain);
        return file_.document().object(call.callable, call.args);
    }

    Value copy_of(Value value) {
        return tree_.copy(value, [&](Value inner) { return replace(inner); });
    }

    /// The call that builds a tensor, with the elements of `plain`. Parameters and subclasses wrap an inner call in
    /// their arguments.
    Call renewed(Value callable, Items args, Value plain) {
        torch::Document& document = file_.document();
        const std::string_view function = callable.is(Kind::global) ? callable.as_global().name : "";
        std::vector<Value> changed;
        if (function == class_wrapper && args.size() > 2) {
            const Call inner = renewed(args[0], args[2].items(), plain);
            changed = {inner.callable, copy_of(args[1]), inner.args};
        } else if (function.starts_with("_rebuild_parameter") && !args.empty()) {
            const torch::Object& object = args[0].as_object();
            const Call inner = renewed(object.callable, object.args.items(), plain);
            changed = {document.object(inner.callable, inner.args)};
        } else if (function == "_rebuild_qtensor") {
            // Scales and zero points follow the elements in the arguments.
            const Items own = plain.as_object().args.items();
            changed.assign(own.begin(), own.begin() + 4);
        } else {
            return {plain.as_object().callable, plain.as_object().args};
        }
        for (const Value arg : args.subspan(changed.size())) changed.push_back(copy_of(arg));
        return {copy_of(callable), document.tuple(changed)};
    }

    static constexpr std::string_view class_wrapper = "_rebuild_from_type_v2";

    const Archive& archive_;
    const std::map<std::string, std::vector<std::string>>& vectors_;
    TorchFileWriter& file_;
    torch::TreeCopy tree_;
    torch::CarriedTensors carried_;
    std::unordered_map<Value, std::string, torch::ValueHash> names_;
};

/// Whether the new file has exactly the tensors `stored`.
bool keeps_names(const Content& content, const std::vector<torch::NamedTensor>& stored) {
    std::unordered_set<std::string_view> names;
    for (const Tensor& tensor : content.tensors) names.insert(tensor.name);
    for (const TensorView& view : content.views) names.insert(view.name);
    return stored.size() == names.size() &&
           std::ranges::all_of(stored, [&](const torch::NamedTensor& named) { return names.contains(named.name); });
}

}  // namespace

Draft draft_torch(Format format, const Content& content) {
    if (content.ranks > 1)
        throw Error{Exit::usage, "a torch.save file stores whole tensors; use a layout of one rank, such as tp=1"};
    TorchFileWriter file{format, content};
    if (content.source == nullptr || !content.source->format->is_one_file)
        return file.finish(make_state_tree(content, file));
    const Archive archive = Archive::open(content.source->catalogue.path(0));
    const TrainingTensors training = training_tensors(archive);
    const bool same = keeps_names(content, training.tensors);
    return file.finish(same ? SameTree{archive, training, file}.copy() : make_state_tree(content, file));
}

}  // namespace tpx::formats
