// SPDX-License-Identifier: Apache-2.0
#include "formats/encodings/torch/archive.hpp"
#include "formats/encodings/torch/storage.hpp"
#include "lib/core/error.hpp"

#include <algorithm>
#include <array>
#include <limits>
#include <unordered_set>

namespace tpx::torch {
namespace {

using Items = std::span<const Value>;

/// A call of one of torch's functions that rebuild tensors, without the wrappers around it.
struct Rebuild {
    std::string_view function;
    Items args;
    bool parameter = false;
};

bool rebuilds(Value callable) {
    if (!callable.is(Kind::global)) return false;
    const Global global = callable.as_global();
    return (global.module == "torch._utils" || global.module == "torch._tensor") && global.name.starts_with("_rebuild");
}

Value argument(Items args, std::size_t i) {
    if (i >= args.size()) throw failure("a tensor with only {} arguments", args.size());
    return args[i];
}

/// The innermost call: a parameter wraps a tensor, and a subclass wraps the call that rebuilds one.
Rebuild unwrap(Value value) {
    constexpr int most_wrappers = 8;
    Rebuild result{value.class_name(), value.as_object().args.items(), false};
    for (int i = 0; i < most_wrappers; ++i) {
        if (result.function == "_rebuild_parameter" || result.function == "_rebuild_parameter_with_state") {
            const Value inner = argument(result.args, 0);
            if (!inner.is(Kind::object)) throw failure("a parameter of {}", inner.describe());
            result = {inner.class_name(), inner.as_object().args.items(), true};
        } else if (result.function == "_rebuild_from_type_v2") {
            result = {argument(result.args, 0).class_name(), argument(result.args, 2).items(), result.parameter};
        } else {
            return result;
        }
    }
    throw failure("a tensor inside more than {} wrappers", most_wrappers);
}

/// The positions of a rebuilding function's arguments; -1: it has no such argument.
struct Signature {
    std::string_view function;
    int requires_grad;
    int dtype;
    int metadata;
};

/// Why tensors that `function` makes cannot be read, and what to save instead.
std::string refusal(std::string_view function, Items args) {
    if (function == "_rebuild_wrapper_subclass" && !args.empty() && args[0].is(Kind::global)) {
        const Global own = args[0].as_global();
        if (own.name == "DTensor")
            return "is a DTensor, of which each rank has a part: save its full_tensor(), or let all ranks save it with "
                   "torch.distributed.checkpoint";
        if (own.name == "ShardedTensor")
            return "is a ShardedTensor, of which each rank has a part: save the FULL_STATE_DICT, or let all ranks save "
                   "it with torch.distributed.checkpoint";
        return fmt::format(
            "is a {}.{}, whose elements are computed from other tensors: save the plain tensor that its dequantize() "
            "or "
            "to_dense() returns",
            own.module, own.name);
    }
    if (function == "_rebuild_sparse_tensor") return "is sparse: save its to_dense()";
    if (function.starts_with("_rebuild_nested") || function == "_rebuild_njt")
        return "is a nested tensor: save its unbind(), or its values() and offsets()";
    if (function.starts_with("_rebuild_meta")) return "is on the device 'meta', and has no elements";
    return fmt::format("a tensor made by {}, which cannot be read", function);
}

const Signature& signature(std::string_view function, Items args) {
    static constexpr std::array known{
        Signature{"_rebuild_tensor", -1, -1, -1}, Signature{"_rebuild_tensor_v2", 4, -1, 6},
        Signature{"_rebuild_tensor_v3", 4, 6, 7}, Signature{"_rebuild_qtensor", 5, -1, -1}};
    for (const Signature& one : known)
        if (one.function == function) return one;
    throw failure("{}", refusal(function, args));
}

Shape dimensions(Value value) {
    Shape result;
    for (const Value item : value.items()) {
        if (result.size() == max_rank)
            throw failure("{} dimensions, at most {} can be read", value.items().size(), max_rank);
        if (item.as_int() < 0) throw failure("a negative dimension or stride ({})", item.as_int());
        result.push_back(item.as_int());
    }
    return result;
}

/// The number of elements of the storage up to and including the last one of the tensor; 0 if the tensor is empty.
std::uint64_t reach(const StoredTensor& tensor) {
    const auto overflow = [&] {
        return failure("shape {} and strides {} are too large", to_string(tensor.shape), to_string(tensor.strides));
    };
    const Index count = checked_volume(tensor.shape);
    if (count < 0) throw overflow();
    if (count == 0) return 0;
    std::uint64_t last = tensor.storage_offset;
    for (int k = 0; k < tensor.shape.size(); ++k) {
        std::uint64_t span = 0;
        if (__builtin_mul_overflow(static_cast<std::uint64_t>(tensor.shape[k] - 1),
                                   static_cast<std::uint64_t>(tensor.strides[k]), &span) ||
            __builtin_add_overflow(last, span, &last) || last > std::uint64_t(std::numeric_limits<Index>::max()))
            throw overflow();
    }
    return last + 1;
}

void set_flags(StoredTensor& tensor, const Signature& roles, Items args) {
    const auto given = [&](int role) { return role >= 0 && static_cast<std::size_t>(role) < args.size(); };
    if (given(roles.requires_grad) && args[roles.requires_grad].is(Kind::boolean))
        tensor.requires_grad = args[roles.requires_grad].as_bool();
    if (!given(roles.metadata) || !args[roles.metadata].is(Kind::dict)) return;
    const auto flag = [&](std::string_view key) {
        const auto value = args[roles.metadata].find(key);
        return value && value->is(Kind::boolean) && value->as_bool();
    };
    tensor.conjugated = flag("conj");
    tensor.negated = flag("neg");
}

DType dtype_named(Value value) {
    const Global global = value.as_global();
    const auto dtype = dtype_by_torch(global.name);
    if (global.module != "torch" || !dtype) throw failure("unknown dtype {}.{}", global.module, global.name);
    return *dtype;
}

}  // namespace

std::string subclass_of(Value value) {
    constexpr int most_wrappers = 8;
    for (int i = 0; i < most_wrappers && value.is(Kind::object); ++i) {
        const Items args = value.as_object().args.items();
        if (value.class_name().starts_with("_rebuild_parameter") && !args.empty()) {
            value = args[0];
            continue;
        }
        if (value.class_name() != "_rebuild_from_type_v2" || args.size() < 2 || !args[1].is(Kind::global)) return "";
        const Global own = args[1].as_global();
        const bool is_torchs =
            own.module == "torch" || own.module.starts_with("torch.") || own.module == "torch._tensor";
        return is_torchs ? "" : fmt::format("{}.{}", own.module, own.name);
    }
    return "";
}

bool Archive::is_tensor(Value value) { return value.is(Kind::object) && rebuilds(value.as_object().callable); }

std::optional<StoredTensor> Archive::tensor(Value value) const {
    if (!is_tensor(value)) return std::nullopt;
    const auto [function, args, parameter] = unwrap(value);
    const Signature& roles = signature(function, args);
    const StorageId id = storage_id(argument(args, 0));
    const auto storage = storages_.find(id.key);
    if (storage == storages_.end()) throw failure("a tensor on device '{}' has no elements", id.location);

    StoredTensor result;
    result.dtype = roles.dtype < 0 ? id.dtype : dtype_named(argument(args, static_cast<std::size_t>(roles.dtype)));
    if (itemsize(result.dtype) == 0) throw failure("a tensor of dtype {}, which cannot be read", name(result.dtype));
    const std::int64_t first = argument(args, 1).as_int();
    if (first < 0) throw failure("a tensor at element {} of its storage", first);
    result.storage_offset = static_cast<std::uint64_t>(first);
    result.shape = dimensions(argument(args, 2));
    result.strides = dimensions(argument(args, 3));
    if (result.shape.size() != result.strides.size())
        throw failure("{} dimensions, but {} strides", result.shape.size(), result.strides.size());
    const auto size = static_cast<std::uint64_t>(itemsize(result.dtype));
    const std::uint64_t needed = reach(result);
    if (needed > id.bytes / size)
        throw failure("shape {} and strides {} at element {} reach beyond storage '{}' of {} elements",
                      to_string(result.shape), to_string(result.strides), first, id.key, id.bytes / size);
    result.storage = id.key;
    result.compressed = storage->second.compressed;
    result.offset = needed == 0 ? storage->second.offset : storage->second.offset + result.storage_offset * size;
    result.parameter = parameter;
    set_flags(result, roles, args);
    return result;
}

}  // namespace tpx::torch
