// SPDX-License-Identifier: Apache-2.0
#include "formats/encodings/torch/archive_writer.hpp"

#include "formats/encodings/torch/pickle_writer.hpp"
#include "formats/encodings/torch/storage.hpp"
#include "formats/encodings/torch/zip_writer.hpp"
#include "lib/core/error.hpp"

#include <vector>

namespace tpx::torch {
namespace {

constexpr std::uint64_t storage_alignment = 64;
constexpr std::string_view archive_version = "3\n";

void write_dimensions(PickleWriter& pickle, const Shape& dimensions) {
    if (dimensions.empty()) return pickle.empty_tuple();
    pickle.mark();
    for (const Index dimension : dimensions) pickle.integer(dimension);
    pickle.tuple();
}

/// Writes the persistent id of storage 0 on the CPU.
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

/// The pickle of a tensor. A dtype older than torch 2.1 has its own storage class; tensors of newer dtypes have an
/// untyped storage and name their dtype.
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

}  // namespace

bool is_quantized(DType dtype) {
    return dtype == DType::qint8 || dtype == DType::quint8 || dtype == DType::qint32 || dtype == DType::quint4x2 ||
           dtype == DType::quint2x4;
}

TensorFrame frame_tensor(DType dtype, const Shape& shape) {
    constexpr Index most = Index{1} << 62;
    const int size = itemsize(dtype);
    if (info(dtype).torch.empty() || size == 0 || is_quantized(dtype))
        throw failure("torch cannot store tensors of dtype {}", name(dtype));
    const Index elements = checked_volume(shape);
    if (elements < 0 || elements > most / size) throw failure("shape {} has too many elements", to_string(shape));

    TensorFrame frame;
    frame.payload = static_cast<std::uint64_t>(elements) * static_cast<std::uint64_t>(size);
    ZipWriter zip;
    zip.add("data.pkl", tensor_pickle(dtype, shape, static_cast<std::uint64_t>(elements), frame.payload));
    zip.add("byteorder", "little");
    zip.add_hole("data/0", frame.payload, storage_alignment);
    zip.add("version", archive_version);
    zip.finish();
    frame.prefix = zip.runs()[0];
    frame.suffix = zip.runs()[1];
    frame.crcs = zip.holes()[0].crcs;
    return frame;
}

namespace {

/// Lays out the archive of `root`; storages of `holes` are left out.
ZipWriter lay_out(Value root, const Holes& holes, const Contents& given, const Archive* storages) {
    ZipWriter zip;
    zip.add("data.pkl", write_pickle(root));
    zip.add("byteorder", storages != nullptr && storages->big_endian() ? "big" : "little");
    for (const StorageId& id : distinct_storages(root)) {
        const std::string name = fmt::format("data/{}", id.key);
        if (const auto hole = holes.find(id.key); hole != holes.end()) {
            zip.add_hole(name, hole->second, storage_alignment);
            continue;
        }
        if (const auto content = given.find(id.key); content != given.end()) {
            zip.add(name, content->second, storage_alignment);
            continue;
        }
        if (storages == nullptr) throw failure("the object contains tensors, but their storages are missing");
        zip.add(name, storages->storage(id.key), storage_alignment);
    }
    zip.add("version", archive_version);
    zip.finish();
    return zip;
}

}  // namespace

std::string write_archive(Value root, const Archive* storages) { return lay_out(root, {}, {}, storages).runs()[0]; }

ArchiveFrame frame_archive(Value root, const Holes& holes, const Contents& given, const Archive* storages) {
    const ZipWriter zip = lay_out(root, holes, given, storages);
    ArchiveFrame frame{.runs = zip.runs(), .size = zip.size()};
    std::size_t number = 0;
    for (const StorageId& id : distinct_storages(root)) {
        if (!holes.contains(id.key)) continue;
        const ZipWriter::Hole& hole = zip.holes()[number++];
        frame.holes.emplace(std::string{id.key},
                            ArchiveFrame::Hole{hole.offset, hole.size, {hole.crcs.begin(), hole.crcs.end()}});
    }
    return frame;
}

Value tensor_value(Document& document, DType dtype, const Shape& shape, const Strides& strides, std::string_view key,
                   std::uint64_t elements, std::uint64_t offset, bool requires_grad) {
    const std::string_view typed = typed_storage(dtype);
    const auto dimensions = [&](const Shape& sizes) {
        std::vector<Value> items;
        for (const Index size : sizes) items.push_back(document.integer(size));
        return document.tuple(items);
    };
    const std::int64_t count =
        static_cast<std::int64_t>(typed.empty() ? elements * std::uint64_t(itemsize(dtype)) : elements);
    const Value storage = document.persistent(document.tuple(std::vector<Value>{
        document.string("storage"),
        typed.empty() ? document.global("torch.storage", "UntypedStorage") : document.global("torch", typed),
        document.string(key), document.string("cpu"), document.integer(count)}));
    const Value hooks = document.object(document.global("collections", "OrderedDict"), document.tuple({}));
    std::vector<Value> args{storage,
                            document.integer(static_cast<std::int64_t>(offset)),
                            dimensions(shape),
                            dimensions(strides),
                            Value::boolean(requires_grad),
                            hooks};
    if (typed.empty()) args.push_back(document.global("torch", info(dtype).torch));
    return document.object(document.global("torch._utils", typed.empty() ? "_rebuild_tensor_v3" : "_rebuild_tensor_v2"),
                           document.tuple(args));
}

}  // namespace tpx::torch
