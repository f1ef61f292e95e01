// SPDX-License-Identifier: Apache-2.0
#include "formats/encodings/hdf5/file_driver.hpp"

#include "lib/core/error.hpp"

#include <algorithm>
#include <cstring>
#include <memory>
#include <new>

namespace tpx::formats::hdf5 {
namespace {

// A file of this driver: bytes to read, or `made`, to which a new file is written.
struct Place {
    Bytes bytes;
    SparseBytes* made = nullptr;
};

// An open file as libhdf5 sees it; libhdf5's own part must come first.
struct Opened {
    H5FD_t common{};
    Place place;
    haddr_t end_of_allocation = 0;
};

const Opened& opened(const H5FD_t* file) { return *reinterpret_cast<const Opened*>(file); }

H5FD_t* open_driver(const char*, unsigned, hid_t access, haddr_t) {
    const auto* place = static_cast<const Place* const*>(H5Pget_driver_info(access));
    if (place == nullptr) return nullptr;
    auto made = std::make_unique<Opened>();
    made->place = **place;
    return &made.release()->common;
}

herr_t close_driver(H5FD_t* file) {
    delete reinterpret_cast<Opened*>(file);
    return 0;
}

herr_t query_driver(const H5FD_t*, unsigned long* flags) {
    *flags = H5FD_FEAT_DATA_SIEVE | H5FD_FEAT_ACCUMULATE_METADATA_READ;
    return 0;
}

haddr_t end_of_allocation(const H5FD_t* file, H5FD_mem_t) { return opened(file).end_of_allocation; }

herr_t set_end_of_allocation(H5FD_t* file, H5FD_mem_t, haddr_t end) {
    reinterpret_cast<Opened*>(file)->end_of_allocation = end;
    return 0;
}

haddr_t end_of_file(const H5FD_t* file, H5FD_mem_t) {
    const Place& place = opened(file).place;
    return place.made != nullptr ? place.made->size() : place.bytes.length;
}

thread_local PayloadProbe* active_probe = nullptr;

herr_t read_driver(H5FD_t* file, H5FD_mem_t type, hid_t, haddr_t offset, std::size_t size, void* into) {
    const Place& place = opened(file).place;
    const Bytes& bytes = place.bytes;
    if (active_probe != nullptr && type == H5FD_MEM_DRAW) {
        active_probe->offset = offset;
        active_probe->length = size;
        return 0;
    }
    if (place.made != nullptr) {
        place.made->read(offset, {static_cast<std::byte*>(into), size});
        return 0;
    }
    if (size == 0) return 0;
    if (offset > bytes.length || size > bytes.length - offset) return -1;
    if (bytes.fd == nullptr) {
        std::memcpy(into, bytes.memory.data() + offset, size);
        return 0;
    }
    try {
        read_at(*bytes.fd, bytes.offset + offset, {static_cast<std::byte*>(into), size}, bytes.path);
        return 0;
    } catch (const Error&) {
        return -1;
    }
}

herr_t write_driver(H5FD_t* file, H5FD_mem_t, hid_t, haddr_t offset, std::size_t size, const void* from) {
    SparseBytes* made = opened(file).place.made;
    if (made == nullptr) return -1;
    try {
        made->write(offset, {static_cast<const std::byte*>(from), size});
        return 0;
    } catch (const std::bad_alloc&) {
        return -1;
    }
}

herr_t truncate_driver(H5FD_t* file, hid_t, hbool_t) {
    SparseBytes* made = opened(file).place.made;
    if (made != nullptr) made->resize(opened(file).end_of_allocation);
    return 0;
}

constexpr H5FD_class_t make_driver() {
    H5FD_class_t driver{};
    driver.name = "tpx";
    driver.maxaddr = haddr_t{1} << 62;
    driver.fc_degree = H5F_CLOSE_STRONG;
    driver.fapl_size = sizeof(const Place*);
    driver.open = open_driver;
    driver.close = close_driver;
    driver.query = query_driver;
    driver.get_eoa = end_of_allocation;
    driver.set_eoa = set_end_of_allocation;
    driver.get_eof = end_of_file;
    driver.read = read_driver;
    driver.write = write_driver;
    driver.truncate = truncate_driver;
    constexpr H5FD_mem_t map[H5FD_MEM_NTYPES] = H5FD_FLMAP_DICHOTOMY;
    for (int k = 0; k < H5FD_MEM_NTYPES; ++k) driver.fl_map[k] = map[k];
    return driver;
}

constexpr H5FD_class_t driver = make_driver();

hid_t driver_id() {
    H5Eset_auto2(H5E_DEFAULT, nullptr, nullptr);
    static const hid_t id = H5FDregister(&driver);
    return id;
}

}  // namespace

PayloadProbe::PayloadProbe() { active_probe = this; }

PayloadProbe::~PayloadProbe() { active_probe = nullptr; }

File open_bytes(const Bytes& bytes) {
    const Properties access{H5Pcreate(H5P_FILE_ACCESS)};
    const Place place{bytes};
    const Place* info = &place;
    if (H5Pset_driver(access.get(), driver_id(), &info) < 0) return {};
    return File{H5Fopen("bytes", H5F_ACC_RDONLY, access.get())};
}

File create_bytes(SparseBytes& content, const Properties& access, const Properties& creation) {
    const Place place{{}, &content};
    const Place* info = &place;
    if (H5Pset_driver(access.get(), driver_id(), &info) < 0) return {};
    return File{H5Fcreate("bytes", H5F_ACC_TRUNC, creation.get(), access.get())};
}

}  // namespace tpx::formats::hdf5
