// SPDX-License-Identifier: Apache-2.0
#include "formats/torch/archive_writer.hpp"

#include "formats/torch/pickle_writer.hpp"
#include "formats/torch/storage.hpp"
#include "formats/torch/zip_writer.hpp"
#include "lib/core/error.hpp"

#include <set>

namespace tpx::torch {
namespace {

constexpr std::uint64_t alignment = 64;
constexpr std::string_view version = "3\n";

void write_dimensions(PickleWriter& pickle, const Shape& dimensions) {
    if (dimensions.empty()) return pickle.empty_tuple();
    pickle.mark();
    for (const Index dimension : dimensions) pickle.integer(dimension);
    pickle.tuple();
}

/// The persistent id of storage 0 on the CPU.
void write_storage(PickleWriter& pickle, Global type, std::uint64_t elements) {
    pickle.mark();
    pickle.string("storage");
    pickle.global(type.module, type.name);
    pickle.string("0");
    pickle.string("cpu");
    pickle.integer(static_cast<std::int64_t>(elements));
    pickle.tuple();
    pickle.persistent();
}

/// Types of before torch 2.1 have storages of their own; the others lie in untyped ones and are named.
std::string tensor_pickle(DType dtype, const Shape& shape, std::uint64_t elements, std::uint64_t bytes) {
    const std::string_view typed = typed_storage(dtype);
    PickleWriter pickle;
    pickle.global("torch._utils", typed.empty() ? "_rebuild_tensor_v3" : "_rebuild_tensor_v2");
    pickle.mark();
    if (typed.empty())
        write_storage(pickle, {"torch.storage", "UntypedStorage"}, bytes);
    else
        write_storage(pickle, {"torch", typed}, elements);
    pickle.integer(0);
    write_dimensions(pickle, shape);
    write_dimensions(pickle, row_major(shape));
    pickle.boolean(false);
    pickle.global("collections", "OrderedDict");
    pickle.empty_tuple();
    pickle.reduce();
    if (typed.empty()) pickle.global("torch", info(dtype).torch);
    pickle.tuple();
    pickle.reduce();
    return pickle.finish();
}

/// Quantized tensors have scales beside their elements.
bool is_quantized(DType dtype) {
    return dtype == DType::qint8 || dtype == DType::quint8 || dtype == DType::qint32 || dtype == DType::quint4x2 ||
           dtype == DType::quint2x4;
}

}  // namespace

TensorFrame frame_tensor(DType dtype, const Shape& shape) {
    constexpr Index most = Index{1} << 62;
    const int size = itemsize(dtype);
    if (info(dtype).torch.empty() || size == 0 || is_quantized(dtype))
        throw failure("torch stores no tensors of dtype {}", name(dtype));
    const Index elements = checked_volume(shape);
    if (elements < 0 || elements > most / size) throw failure("shape {} has too many elements", to_string(shape));

    TensorFrame frame;
    frame.payload = static_cast<std::uint64_t>(elements) * static_cast<std::uint64_t>(size);
    ZipWriter zip;
    zip.add("data.pkl", tensor_pickle(dtype, shape, static_cast<std::uint64_t>(elements), frame.payload));
    zip.add("byteorder", "little");
    zip.add_hole("data/0", frame.payload, alignment);
    zip.add("version", version);
    zip.finish();
    frame.prefix = zip.before_hole();
    frame.suffix = zip.behind_hole();
    frame.crcs = zip.hole_crcs();
    return frame;
}

std::string write_archive(Value root, const Archive* storages) {
    ZipWriter zip;
    zip.add("data.pkl", write_pickle(root));
    zip.add("byteorder", storages != nullptr && storages->big_endian() ? "big" : "little");
    std::set<std::string_view> written;
    for (const StorageId& id : storages_of(root)) {
        if (id.location == "meta" || !written.insert(id.key).second) continue;
        if (storages == nullptr) throw failure("the object holds tensors, whose storages are not given");
        zip.add(fmt::format("data/{}", id.key), storages->storage(id.key), alignment);
    }
    zip.add("version", version);
    zip.finish();
    return zip.before_hole();
}

}  // namespace tpx::torch
