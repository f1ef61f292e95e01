// SPDX-License-Identifier: Apache-2.0
#include "tests/unit/formats/files/plan/altered_file.hpp"

#include "formats/files/plan/hdf5.hpp"
#include "formats/files/plan/plan_tables.hpp"
#include "lib/core/error.hpp"
#include "lib/core/file.hpp"

#include <fcntl.h>

#include <algorithm>
#include <cstring>

namespace tpx::testing {
namespace {

using namespace formats::hdf5;

/// The values of an attribute or data set, as bytes of its own type.
struct Values {
    Type type;
    std::vector<hsize_t> shape;
    std::size_t size = 0;  // of one
    std::string bytes;

    std::size_t rows() const { return shape.empty() ? 1 : static_cast<std::size_t>(shape[0]); }
    std::size_t row_size() const { return rows() == 0 ? 0 : bytes.size() / rows(); }
    std::string row(std::size_t k) const { return bytes.substr(k * row_size(), row_size()); }
};

File open_plan(const std::filesystem::path& path, bool write) {
    File file{H5Fopen(path.c_str(), write ? H5F_ACC_RDWR : H5F_ACC_RDONLY, H5P_DEFAULT)};
    if (!file) throw failure("{}: cannot be opened", path.string());
    return file;
}

Values read(const File& file, const Alteration& at) {
    Values values;
    Attribute attribute;
    Dataset dataset;
    if (at.attribute)
        attribute = Attribute{H5Aopen(file.get(), at.field.c_str() + 1, H5P_DEFAULT)};
    else
        dataset = Dataset{H5Dopen2(file.get(), at.field.c_str(), H5P_DEFAULT)};
    values.type = Type{at.attribute ? H5Aget_type(attribute.get()) : H5Dget_type(dataset.get())};
    const Space space{at.attribute ? H5Aget_space(attribute.get()) : H5Dget_space(dataset.get())};
    values.shape.resize(static_cast<std::size_t>(H5Sget_simple_extent_ndims(space.get())));
    H5Sget_simple_extent_dims(space.get(), values.shape.data(), nullptr);
    values.size = H5Tget_size(values.type.get());
    values.bytes.resize(static_cast<std::size_t>(H5Sget_simple_extent_npoints(space.get())) * values.size);
    if (values.bytes.empty()) return values;
    if (at.attribute)
        H5Aread(attribute.get(), values.type.get(), values.bytes.data());
    else
        H5Dread(dataset.get(), values.type.get(), H5S_ALL, H5S_ALL, H5P_DEFAULT, values.bytes.data());
    return values;
}

void replace(const File& file, const Alteration& at, const Values& values) {
    const Space space{values.shape.empty()
                          ? H5Screate(H5S_SCALAR)
                          : H5Screate_simple(static_cast<int>(values.shape.size()), values.shape.data(), nullptr)};
    if (at.attribute) {
        H5Adelete(file.get(), at.field.c_str() + 1);
        const Attribute made{
            H5Acreate2(file.get(), at.field.c_str() + 1, values.type.get(), space.get(), H5P_DEFAULT, H5P_DEFAULT)};
        H5Awrite(made.get(), values.type.get(), values.bytes.data());
        return;
    }
    H5Ldelete(file.get(), at.field.c_str(), H5P_DEFAULT);
    const Dataset made{H5Dcreate2(file.get(), at.field.c_str(), values.type.get(), space.get(), H5P_DEFAULT,
                                  H5P_DEFAULT, H5P_DEFAULT)};
    if (!values.bytes.empty())
        H5Dwrite(made.get(), values.type.get(), H5S_ALL, H5S_ALL, H5P_DEFAULT, values.bytes.data());
}

/// Adds one, or subtracts one at the maximum; changes the first letter of a text.
void add_one(Values& values, std::size_t row) {
    char* at = values.bytes.data() + row * values.row_size();
    const H5T_class_t kind = H5Tget_class(values.type.get());
    if (kind == H5T_STRING) {
        *at = *at == 'x' ? 'y' : 'x';
    } else if (kind == H5T_FLOAT) {
        double number = 0;
        std::memcpy(&number, at, sizeof number);
        number = number * 2 + 1;
        std::memcpy(at, &number, sizeof number);
    } else {
        std::uint64_t number = 0;
        std::memcpy(&number, at, values.size);
        const std::uint64_t most = values.size == 8 ? ~std::uint64_t{0} : (std::uint64_t{1} << (8 * values.size)) - 1;
        const bool is_signed = H5Tget_sign(values.type.get()) == H5T_SGN_2;
        number = number == (is_signed ? most >> 1 : most) ? number - 1 : number + 1;
        std::memcpy(at, &number, values.size);
    }
}

bool swap_rows(Values& values) {
    for (std::size_t k = values.rows(); k-- > 1;) {
        const std::string first = values.row(0), other = values.row(k);
        if (first == other) continue;
        values.bytes.replace(0, first.size(), other).replace(k * first.size(), first.size(), first);
        return true;
    }
    return false;
}

bool change(Values& values, Alteration::Kind kind) {
    if (values.rows() == 0) return false;
    switch (kind) {
        case Alteration::add_first:
            add_one(values, 0);
            return true;
        case Alteration::add_middle:
            if (values.rows() < 3) return false;
            add_one(values, values.rows() / 2);
            return true;
        case Alteration::add_last:
            if (values.rows() < 2) return false;
            add_one(values, values.rows() - 1);
            return true;
        case Alteration::swap:
            return swap_rows(values);
        default:
            if (values.shape.empty()) return false;
            values.bytes.resize(values.bytes.size() - values.row_size());
            --values.shape[0];
            return true;
    }
}

/// Sets the CRC in the line before the HDF5 bytes to fit them.
void fit_crc(const std::filesystem::path& path) {
    const std::string block = user_block(read_file(path), formats::plan_schema);
    write_at(open_file(path, O_WRONLY), 0, std::as_bytes(std::span{block}), path);
}

}  // namespace

std::string Alteration::name() const {
    static constexpr const char* kinds[] = {"first", "middle", "last", "swap", "drop", "remove"};
    return field + " " + kinds[kind];
}

std::vector<Alteration> alterations(const std::filesystem::path& path) {
    const File file = open_plan(path, false);
    std::vector<Alteration> fields;
    const auto attribute = [](hid_t, const char* name, const H5A_info_t*, void* into) -> herr_t {
        static_cast<std::vector<Alteration>*>(into)->push_back({std::string{"/"} + name, true});
        return 0;
    };
    const auto object = [](hid_t, const char* name, const H5O_info_t* info, void* into) -> herr_t {
        if (info->type == H5O_TYPE_DATASET)
            static_cast<std::vector<Alteration>*>(into)->push_back({std::string{"/"} + name, false});
        return 0;
    };
    hsize_t at = 0;
    H5Aiterate2(file.get(), H5_INDEX_NAME, H5_ITER_NATIVE, &at, attribute, &fields);
    H5Ovisit(file.get(), H5_INDEX_NAME, H5_ITER_NATIVE, object, &fields);
    std::vector<Alteration> all;
    for (Alteration one : fields) {
        for (int kind = Alteration::add_first; kind <= Alteration::remove; ++kind) {
            one.kind = static_cast<Alteration::Kind>(kind);
            all.push_back(one);
        }
    }
    return all;
}

bool alter(const std::filesystem::path& from, const std::filesystem::path& to, const Alteration& alteration) {
    std::filesystem::copy_file(from, to, std::filesystem::copy_options::overwrite_existing);
    {
        const File file = open_plan(to, true);
        if (alteration.kind == Alteration::remove) {
            if (alteration.attribute)
                H5Adelete(file.get(), alteration.field.c_str() + 1);
            else
                H5Ldelete(file.get(), alteration.field.c_str(), H5P_DEFAULT);
        } else {
            Values values = read(file, alteration);
            if (!change(values, alteration.kind)) return false;
            replace(file, alteration, values);
        }
    }
    fit_crc(to);
    return true;
}

void scramble(const std::filesystem::path& from, const std::filesystem::path& to, std::mt19937& random) {
    const std::vector<Alteration> fields = alterations(from);
    const Alteration& field = fields[random() % fields.size()];
    std::filesystem::copy_file(from, to, std::filesystem::copy_options::overwrite_existing);
    {
        const File file = open_plan(to, true);
        Values values = read(file, field);
        for (unsigned count = random() % 4; count > 0 && !values.bytes.empty(); --count) {
            const std::size_t row = random() % values.rows();
            const std::string other = values.row(random() % values.rows());
            const std::string filled(values.row_size(), static_cast<char>(random() % 2 == 0 ? 0xff : random()));
            values.bytes.replace(row * values.row_size(), values.row_size(), random() % 2 == 0 ? other : filled);
            if (random() % 2 == 0) values.bytes[random() % values.bytes.size()] = static_cast<char>(random());
        }
        replace(file, field, values);
    }
    fit_crc(to);
}

void fit_request_digest(const std::filesystem::path& path) {
    const std::uint64_t digest = formats::request_digest(formats::read_plan_file(path));
    {
        const File file = open_plan(path, true);
        const Attribute attribute{H5Aopen(file.get(), "request_digest", H5P_DEFAULT)};
        H5Awrite(attribute.get(), H5T_NATIVE_UINT64, &digest);
    }
    fit_crc(path);
}

}  // namespace tpx::testing
