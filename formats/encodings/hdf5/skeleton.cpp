// SPDX-License-Identifier: Apache-2.0
#include "formats/encodings/hdf5/skeleton.hpp"

#include "formats/encodings/hdf5/file_driver.hpp"
#include "lib/core/error.hpp"

#include <algorithm>

namespace tpx::formats::hdf5 {
namespace {

// Large payloads begin at page boundaries, so that whole blocks can be written.
constexpr hsize_t aligned_from = 65536;
constexpr hsize_t alignment = 4096;

void check(bool worked, std::string_view path, std::string_view what) {
    if (!worked) throw failure("'{}': HDF5 cannot create {}", path, what);
}

Type half_type() {
    Type type{H5Tcopy(H5T_IEEE_F32LE)};
    H5Tset_fields(type.get(), 15, 10, 5, 0, 10);
    H5Tset_size(type.get(), 2);
    H5Tset_ebias(type.get(), 15);
    return type;
}

Type boolean_type() {
    Type type{H5Tenum_create(H5T_STD_I8LE)};
    for (const auto value : {std::int8_t{0}, std::int8_t{1}})
        H5Tenum_insert(type.get(), value == 0 ? "FALSE" : "TRUE", &value);
    return type;
}

Type complex_type(hid_t part) {
    const std::size_t size = H5Tget_size(part);
    Type type{H5Tcreate(H5T_COMPOUND, 2 * size)};
    H5Tinsert(type.get(), "r", 0, part);
    H5Tinsert(type.get(), "i", size, part);
    return type;
}

/// HDF5's own type for a dtype; null when it has none.
Type own_type(DType dtype) {
    switch (dtype) {
        case DType::boolean:
            return boolean_type();
        case DType::u8:
            return Type{H5Tcopy(H5T_STD_U8LE)};
        case DType::i8:
            return Type{H5Tcopy(H5T_STD_I8LE)};
        case DType::u16:
            return Type{H5Tcopy(H5T_STD_U16LE)};
        case DType::i16:
            return Type{H5Tcopy(H5T_STD_I16LE)};
        case DType::u32:
            return Type{H5Tcopy(H5T_STD_U32LE)};
        case DType::i32:
            return Type{H5Tcopy(H5T_STD_I32LE)};
        case DType::u64:
            return Type{H5Tcopy(H5T_STD_U64LE)};
        case DType::i64:
            return Type{H5Tcopy(H5T_STD_I64LE)};
        case DType::f16:
            return half_type();
        case DType::f32:
            return Type{H5Tcopy(H5T_IEEE_F32LE)};
        case DType::f64:
            return Type{H5Tcopy(H5T_IEEE_F64LE)};
        case DType::c32:
            return complex_type(half_type().get());
        case DType::c64:
            return complex_type(H5T_IEEE_F32LE);
        case DType::c128:
            return complex_type(H5T_IEEE_F64LE);
        default:
            return {};
    }
}

/// The HDF5 type that replaces a dtype that HDF5 lacks.
Type substitute(DType dtype, bool opaque) {
    const auto size = static_cast<std::size_t>(itemsize(dtype));
    if (opaque) return Type{H5Tcreate(H5T_OPAQUE, size)};
    switch (size) {
        case 1:
            return Type{H5Tcopy(H5T_STD_U8LE)};
        case 2:
            return Type{H5Tcopy(H5T_STD_U16LE)};
        case 4:
            return Type{H5Tcopy(H5T_STD_U32LE)};
        default:
            throw failure("HDF5 files cannot store elements of {} ({} bits)", name(dtype), info(dtype).bits);
    }
}

Space space_of(const Shape& shape) {
    if (shape.empty()) return Space{H5Screate(H5S_SCALAR)};
    std::vector<hsize_t> sizes(shape.begin(), shape.end());
    return Space{H5Screate_simple(shape.size(), sizes.data(), nullptr)};
}

Type text_type() {
    Type type{H5Tcopy(H5T_C_S1)};
    H5Tset_size(type.get(), H5T_VARIABLE);
    H5Tset_cset(type.get(), H5T_CSET_UTF8);
    return type;
}

}  // namespace

Skeleton::Skeleton() {
    const Properties access{H5Pcreate(H5P_FILE_ACCESS)};
    H5Pset_alignment(access.get(), aligned_from, alignment);
    H5Pset_libver_bounds(access.get(), H5F_LIBVER_V18, H5F_LIBVER_V18);
    file_ = create_bytes(content_, access, without_times(H5P_FILE_CREATE));
    if (!file_) throw failure("libhdf5 cannot create a file in memory");
    groups_.insert("");
}

void Skeleton::group(const std::string& path) {
    if (!groups_.insert(path).second) return;
    const auto slash = path.rfind('/');
    group(slash == path.npos ? "" : path.substr(0, slash));
    const Properties creation = without_times(H5P_GROUP_CREATE);
    check(bool{Group{H5Gcreate2(file_.get(), path.c_str(), H5P_DEFAULT, creation.get(), H5P_DEFAULT)}}, path,
          "a group");
}

void Skeleton::dataset(const std::string& path, DType dtype, const Shape& shape, bool opaque) {
    const auto slash = path.rfind('/');
    group(slash == path.npos ? "" : path.substr(0, slash));
    Type type = own_type(dtype);
    const bool own = bool{type};
    if (!own) type = substitute(dtype, opaque);
    const Space space = space_of(shape);
    const Properties creation = without_times(H5P_DATASET_CREATE);
    H5Pset_layout(creation.get(), H5D_CONTIGUOUS);
    H5Pset_alloc_time(creation.get(), H5D_ALLOC_TIME_EARLY);
    H5Pset_fill_time(creation.get(), H5D_FILL_TIME_NEVER);
    const Dataset made{
        H5Dcreate2(file_.get(), path.c_str(), type.get(), space.get(), H5P_DEFAULT, creation.get(), H5P_DEFAULT)};
    check(bool{made}, path, "a dataset");
    const haddr_t at = volume(shape) == 0 ? 0 : H5Dget_offset(made.get());
    check(at != HADDR_UNDEF, path, "room for a dataset");
    offsets_.push_back(at);
    if (own) return;
    const std::string_view known = info(dtype).torch.empty() ? name(dtype) : info(dtype).torch;
    attribute(path, text_attribute("dtype", known));
}

void Skeleton::attribute(const std::string& path, const AttributeValue& value) {
    const Object object{H5Oopen(file_.get(), path.empty() ? "/" : path.c_str(), H5P_DEFAULT)};
    std::vector<const char*> texts;
    for (const std::string& text : value.texts) texts.push_back(text.c_str());
    Type stored, memory;
    const void* content = texts.data();
    std::size_t count = texts.size();
    switch (value.kind) {
        case AttributeValue::Kind::texts:
            stored = text_type();
            memory = text_type();
            break;
        case AttributeValue::Kind::integers:
            stored = Type{H5Tcopy(H5T_STD_I64LE)};
            memory = Type{H5Tcopy(H5T_NATIVE_INT64)};
            content = value.integers.data();
            count = value.integers.size();
            break;
        case AttributeValue::Kind::reals:
            stored = Type{H5Tcopy(H5T_IEEE_F64LE)};
            memory = Type{H5Tcopy(H5T_NATIVE_DOUBLE)};
            content = value.reals.data();
            count = value.reals.size();
            break;
        case AttributeValue::Kind::other:
            return;
    }
    const Space space = space_of(value.is_list ? Shape{static_cast<Index>(count)} : Shape{});
    const Attribute made{
        H5Acreate2(object.get(), value.name.c_str(), stored.get(), space.get(), H5P_DEFAULT, H5P_DEFAULT)};
    check(made && (count == 0 || H5Awrite(made.get(), memory.get(), content) >= 0), path,
          fmt::format("the attribute '{}'", value.name));
}

Skeleton::Frame Skeleton::close(std::uint32_t file) {
    if (H5Fflush(file_.get(), H5F_SCOPE_GLOBAL) < 0) throw failure("libhdf5 cannot write to memory");
    file_ = File{};
    Frame frame{offsets_, content_.size(), {}};
    // Payloads were never written, so all runs are metadata.
    for (SparseBytes::Run& run : content_.runs()) frame.fixed.push_back({file, run.offset, std::move(run.bytes)});
    return frame;
}

AttributeValue text_attribute(const char* name, std::string_view text) {
    return {.name = name, .kind = AttributeValue::Kind::texts, .texts = {std::string{text}}};
}

AttributeValue number_attribute(const char* name, std::int64_t number) {
    return {.name = name, .kind = AttributeValue::Kind::integers, .integers = {number}};
}

AttributeValue list_attribute(const char* name, const Tuple<Index>& numbers) {
    return {.name = name,
            .kind = AttributeValue::Kind::integers,
            .is_list = true,
            .integers = {numbers.begin(), numbers.end()}};
}

}  // namespace tpx::formats::hdf5
