// SPDX-License-Identifier: Apache-2.0
#include "formats/encodings/torch/tree_copy.hpp"

#include "formats/encodings/torch/numpy.hpp"
#include "formats/encodings/torch/storage.hpp"
#include "lib/core/error.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <unordered_set>
#include <utility>
#include <vector>

namespace tpx::torch {
namespace {

bool is_scalar(Value value) {
    switch (value.kind()) {
        case Kind::none:
        case Kind::boolean:
        case Kind::integer:
        case Kind::big_integer:
        case Kind::real:
        case Kind::string:
        case Kind::bytes:
            return true;
        default:
            return false;
    }
}

/// Whether torch.load(weights_only=True) reads objects that `callable` makes.
bool is_plain_class(Value callable) {
    if (!callable.is(Kind::global)) return false;
    const Global global = callable.as_global();
    return global == Global{"collections", "OrderedDict"} || global == Global{"torch", "device"};
}

bool is_path(std::string_view name) { return name.ends_with("PosixPath") || name.ends_with("WindowsPath"); }

std::string joined(std::span<const Value> parts) {
    std::string path;
    for (const Value part : parts) {
        const std::string_view name = part.is(Kind::string) ? part.as_string() : "";
        path += path.empty() || path.back() == '/' ? "" : "/";
        path += name;
    }
    return path;
}

}  // namespace

Value TreeCopy::copy(Value root, const Replace& replace) {
    struct Step {
        Value value;
        bool open = false;  // its children are being copied
    };
    std::vector<Step> steps{{root}};
    std::unordered_set<Value, ValueHash> opened;
    std::vector<Value> children;
    while (!steps.empty()) {
        const Step step = steps.back();
        if (has_copy(step.value)) {
            steps.pop_back();
            continue;
        }
        if (step.open) {
            steps.pop_back();
            copies_[step.value] = build(step.value);
            continue;
        }
        if (step.value.is(Kind::object)) {
            if (const auto other = replace(step.value)) {
                copies_[step.value] = *other;
                continue;
            }
        }
        if (!opened.insert(step.value).second) throw failure("{} contains itself", step.value.describe());
        steps.back().open = true;
        children.clear();
        append_children(step.value, children);
        for (auto child = children.rbegin(); child != children.rend(); ++child)
            if (!has_copy(*child)) steps.push_back({*child});
    }
    return copy_of(root);
}

std::vector<Value> TreeCopy::copies_of(std::span<const Value> items) const {
    std::vector<Value> copies;
    copies.reserve(items.size());
    for (const Value item : items) {
        if (!has_copy(item)) throw failure("{} contains itself", item.describe());
        copies.push_back(copy_of(item));
    }
    return copies;
}

std::vector<Entry> TreeCopy::copies_of(std::span<const Entry> entries) {
    std::vector<Entry> copies;
    copies.reserve(entries.size());
    for (const Entry& entry : entries) {
        if (!has_copy(entry.key) || !has_copy(entry.value)) throw failure("{} contains itself", entry.value.describe());
        Value key = copy_of(entry.key);
        // An object may have become a list or a dict, which cannot be a key.
        if (key.is(Kind::list) || key.is(Kind::dict) || key.is(Kind::set)) key = document_.string(entry.key.describe());
        copies.push_back({key, copy_of(entry.value)});
    }
    return copies;
}

Value TreeCopy::build(Value value) {
    switch (value.kind()) {
        case Kind::tuple:
            return document_.tuple(copies_of(value.items()));
        case Kind::size:
            return document_.size(document_.tuple(copies_of(value.items())));
        case Kind::list:
            return document_.list(copies_of(value.items()));
        case Kind::set:
            return document_.set(copies_of(value.items()));
        case Kind::frozenset:
            return classes_ ? document_.frozenset(copies_of(value.items())) : document_.list(copies_of(value.items()));
        case Kind::dict:
            return document_.dict(copies_of(value.entries()));
        case Kind::global: {
            const Global global = value.as_global();
            if (classes_ || (global.module == "torch" && dtype_by_torch(global.name))) return global_copy(value);
            return document_.string(fmt::format("{}.{}", global.module, global.name));
        }
        case Kind::persistent:
            throw failure("a storage that belongs to no tensor cannot be copied");
        case Kind::object:
            return classes_ || is_plain_class(value.as_object().callable) ? build_object(value) : plain_object(value);
        case Kind::integer:
            return document_.integer(value.as_int());
        case Kind::big_integer:
            return document_.big_integer(value.as_bytes());
        case Kind::real:
            return document_.real(value.as_real());
        case Kind::string:
            return document_.string(value.as_string());
        case Kind::bytes:
            return document_.bytes(value.as_bytes());
        default:
            return value;
    }
}

Value TreeCopy::global_copy(Value value) { return document_.global(value.as_global().module, value.as_global().name); }

Value TreeCopy::build_object(Value value) {
    const Object& object = value.as_object();
    // A global that makes the object stays a global, even if other globals become text.
    const Value callable =
        object.callable.is(Kind::global) ? global_copy(object.callable) : copies_of({&object.callable, 1})[0];
    const Value args = copies_of({&object.args, 1})[0];
    const Value copy = document_.object(callable, args, object.construction);
    if (!object.items().empty()) document_.append(copy, copies_of(object.items()));
    if (!object.entries().empty()) document_.insert(copy, copies_of(object.entries()));
    if (!object.state.is_none()) document_.set_state(copy, copies_of({&object.state, 1})[0]);
    return copy;
}

/// An object's data without its class.
Value TreeCopy::plain_object(Value value) {
    const Object& object = value.as_object();
    const std::string_view name = value.class_name();
    std::vector<Value> args = copies_of(object.args.items());
    if (name == "_reconstructor") args.clear();
    if (is_path(name)) return document_.string(joined(object.args.items()));
    if (name == "getattr" && args.size() == 2) return args[1];  // a member of an enum
    std::vector<Entry> entries = copies_of(object.entries());
    const std::vector<Value> items = copies_of(object.items());
    const Value state = object.state.is_none() ? Value{} : copies_of({&object.state, 1})[0];
    if (name == "defaultdict") return document_.dict(entries);
    const bool only_args = entries.empty() && items.empty() && state.is_none();
    if (only_args && args.size() == 1 && (is_scalar(args[0]) || args[0].is(Kind::dict))) return args[0];
    if (only_args && !args.empty()) return document_.list(args);
    if (!items.empty() && args.empty() && entries.empty() && state.is_none()) return document_.list(items);
    if (!args.empty()) entries.insert(entries.begin(), {document_.string("args"), document_.list(args)});
    if (!items.empty()) entries.push_back({document_.string("items"), document_.list(items)});
    if (state.is(Kind::dict))
        entries.insert(entries.end(), state.entries().begin(), state.entries().end());
    else if (!state.is_none())
        entries.push_back({document_.string("state"), state});
    return document_.dict(entries);
}

Value CarriedTensors::add(DType dtype, const Shape& shape, std::string bytes) {
    const std::string key = fmt::format("{}{}", prefix_, contents_.size());
    contents_[key] = std::move(bytes);
    return tensor_value(document_, dtype, shape, row_major(shape), key, static_cast<std::uint64_t>(volume(shape)));
}

std::optional<Value> CarriedTensors::carry(const Contents& storages, Value value) {
    if (!Archive::is_tensor(value)) return std::nullopt;
    const std::vector<StorageId> ids = distinct_storages(value);
    const auto content = ids.size() == 1 ? storages.find(ids[0].key) : storages.end();
    if (content == storages.end()) return std::nullopt;
    const auto args = value.as_object().args.items();
    Shape shape;
    for (const Value size : args[2].items()) shape.push_back(size.as_int());
    constexpr std::size_t dtype_of_v3 = 6;
    const auto dtype = args.size() > dtype_of_v3 ? dtype_by_torch(args[dtype_of_v3].as_global().name) : ids[0].dtype;
    return add(dtype.value(), shape, content->second);
}

std::optional<Value> CarriedTensors::carry(const Archive* archive, Value value) {
    if (archive != nullptr) {
        if (const auto tensor = archive->tensor(value)) {
            if (itemsize(tensor->dtype) == 0 || is_quantized(tensor->dtype))
                throw failure("a tensor of dtype {} outside the weights cannot be copied", name(tensor->dtype));
            return add(tensor->dtype, tensor->shape, archive->elements(*tensor));
        }
    }
    auto array = numpy_value(value);
    if (!array) return std::nullopt;
    if (!array->scalar) {
        const auto dtype = dtype_by_name(array->dtype);
        return dtype ? std::optional{add(*dtype, array->shape, std::move(array->bytes))} : std::nullopt;
    }
    const auto number = numpy_number(*array);
    if (!number) return std::nullopt;
    if (const auto* real = std::get_if<double>(&*number)) return document_.real(*real);
    if (array->dtype == "bool") return Value::boolean(std::get<std::int64_t>(*number) != 0);
    return document_.integer(std::get<std::int64_t>(*number));
}

}  // namespace tpx::torch
