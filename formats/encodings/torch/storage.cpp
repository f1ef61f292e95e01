// SPDX-License-Identifier: Apache-2.0
#include "formats/encodings/torch/storage.hpp"

#include "lib/core/error.hpp"

#include <algorithm>
#include <array>
#include <limits>
#include <unordered_set>

namespace tpx::torch {
namespace {

struct StorageClass {
    std::string_view name;
    DType dtype;
};

constexpr std::array classes{
    StorageClass{"DoubleStorage", DType::f64},        StorageClass{"FloatStorage", DType::f32},
    StorageClass{"HalfStorage", DType::f16},          StorageClass{"BFloat16Storage", DType::bf16},
    StorageClass{"LongStorage", DType::i64},          StorageClass{"IntStorage", DType::i32},
    StorageClass{"ShortStorage", DType::i16},         StorageClass{"CharStorage", DType::i8},
    StorageClass{"ByteStorage", DType::u8},           StorageClass{"BoolStorage", DType::boolean},
    StorageClass{"ComplexFloatStorage", DType::c64},  StorageClass{"ComplexDoubleStorage", DType::c128},
    StorageClass{"QInt8Storage", DType::qint8},       StorageClass{"QUInt8Storage", DType::quint8},
    StorageClass{"QInt32Storage", DType::qint32},     StorageClass{"QUInt4x2Storage", DType::quint4x2},
    StorageClass{"QUInt2x4Storage", DType::quint2x4}, StorageClass{"UntypedStorage", DType::u8}};

DType dtype_of(Global type) {
    if (type.module.substr(0, type.module.find('.')) == "torch")
        for (const StorageClass& known : classes)
            if (known.name == type.name) return known.dtype;
    throw failure("unknown storage class {}.{}", type.module, type.name);
}

}  // namespace

std::string_view typed_storage(DType dtype) {
    for (const StorageClass& known : classes)
        if (known.dtype == dtype) return known.name;
    return {};
}

StorageId storage_id(Value persistent) {
    const auto id = persistent.as_persistent().items();
    if (id.size() < 5 || id.size() > 6 || !id[0].is(Kind::string) || id[0].as_string() != "storage")
        throw failure("unknown persistent id, {}", persistent.as_persistent().describe());
    if (id.size() == 6 && !id[5].is_none()) throw failure("storage '{}' is a view of another", id[2].as_string());
    StorageId result{dtype_of(id[1].as_global()), id[2].as_string(), id[3].as_string(), 0};
    const std::int64_t elements = id[4].as_int();
    const int size = itemsize(result.dtype);
    if (size == 0) throw failure("storage '{}' has dtype {}, which cannot be read", result.key, name(result.dtype));
    if (elements < 0 || elements > std::numeric_limits<std::int64_t>::max() / size)
        throw failure("storage '{}' has {} elements", result.key, elements);
    result.bytes = static_cast<std::uint64_t>(elements) * static_cast<std::uint64_t>(size);
    return result;
}

std::vector<StorageId> storages_of(Value root) {
    std::vector<StorageId> result;
    std::unordered_set<Value, ValueHash> met;
    std::vector<Value> waiting{root};
    while (!waiting.empty()) {
        const Value value = waiting.back();
        waiting.pop_back();
        if (!value.is_node() || !met.insert(value).second) continue;
        if (value.is(Kind::persistent))
            result.push_back(storage_id(value));
        else
            append_children(value, waiting);
    }
    return result;
}

std::vector<StorageId> distinct_storages(Value root) {
    std::vector<StorageId> all = storages_of(root), distinct;
    std::unordered_set<std::string_view> met;
    std::ranges::reverse(all);
    for (const StorageId& id : all)
        if (id.location != "meta" && met.insert(id.key).second) distinct.push_back(id);
    return distinct;
}

}  // namespace tpx::torch
