// SPDX-License-Identifier: Apache-2.0
#include "formats/hdf5/driver.hpp"

#include "lib/core/error.hpp"

#include <unistd.h>

#include <algorithm>
#include <cstring>
#include <memory>

namespace tpx::formats::hdf5 {
namespace {

// What libhdf5 calls a file: its own part comes first.
struct Opened {
    H5FD_t common{};
    Bytes bytes;
    haddr_t end_of_allocation = 0;
    bool is_new = false;
};

const Opened& opened(const H5FD_t* file) { return *reinterpret_cast<const Opened*>(file); }

H5FD_t* open_driver(const char*, unsigned flags, hid_t access, haddr_t) {
    const auto* bytes = static_cast<const Bytes* const*>(H5Pget_driver_info(access));
    if (bytes == nullptr) return nullptr;
    auto made = std::make_unique<Opened>();
    made->bytes = **bytes;
    made->is_new = (flags & H5F_ACC_CREAT) != 0;
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

haddr_t end_of_file(const H5FD_t* file, H5FD_mem_t) { return opened(file).bytes.length; }

thread_local PayloadProbe* probe = nullptr;

herr_t read_driver(H5FD_t* file, H5FD_mem_t type, hid_t, haddr_t offset, std::size_t size, void* into) {
    const Bytes& bytes = opened(file).bytes;
    if (probe != nullptr && type == H5FD_MEM_DRAW) {
        probe->offset = offset;
        probe->length = size;
        return 0;
    }
    if (opened(file).is_new && offset + size > bytes.length) {
        // What was never written is zero.
        std::memset(into, 0, size);
        size = offset < bytes.length ? bytes.length - offset : 0;
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
    Opened& own = *reinterpret_cast<Opened*>(file);
    if (!own.is_new) return -1;
    try {
        write_at(*own.bytes.fd, offset, {static_cast<const std::byte*>(from), size}, own.bytes.path);
    } catch (const Error&) {
        return -1;
    }
    own.bytes.length = std::max<std::uint64_t>(own.bytes.length, offset + size);
    return 0;
}

herr_t truncate_driver(H5FD_t* file, hid_t, hbool_t) {
    Opened& own = *reinterpret_cast<Opened*>(file);
    if (!own.is_new) return 0;
    own.bytes.length = own.end_of_allocation;
    return ::ftruncate(own.bytes.fd->get(), static_cast<off_t>(own.end_of_allocation)) == 0 ? 0 : -1;
}

constexpr H5FD_class_t make_driver() {
    H5FD_class_t driver{};
    driver.name = "tpx";
    driver.maxaddr = haddr_t{1} << 62;
    driver.fc_degree = H5F_CLOSE_STRONG;
    driver.fapl_size = sizeof(const Bytes*);
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

PayloadProbe::PayloadProbe() { probe = this; }

PayloadProbe::~PayloadProbe() { probe = nullptr; }

File open_bytes(const Bytes& bytes) {
    const Properties access{H5Pcreate(H5P_FILE_ACCESS)};
    const Bytes* info = &bytes;
    if (H5Pset_driver(access.get(), driver_id(), &info) < 0) return {};
    return File{H5Fopen("bytes", H5F_ACC_RDONLY, access.get())};
}

File create_bytes(const Fd& file, const Properties& access) {
    const Bytes bytes{&file, "memory", 0, 0, {}};
    const Bytes* info = &bytes;
    if (H5Pset_driver(access.get(), driver_id(), &info) < 0) return {};
    return File{H5Fcreate("bytes", H5F_ACC_TRUNC, H5P_DEFAULT, access.get())};
}

}  // namespace tpx::formats::hdf5
