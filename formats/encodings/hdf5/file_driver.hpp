// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "formats/encodings/hdf5/handles.hpp"
#include "formats/encodings/hdf5/sparse_bytes.hpp"
#include "formats/encodings/hdf5/survey.hpp"

namespace tpx::formats::hdf5 {

/// Opens `bytes` for reading with libhdf5, which sees nothing of the file but them. They must outlive the result, and
/// begin with HDF5's signature or a user block. Null when libhdf5 refuses them.
File open_bytes(const Bytes& bytes);

/// While one lives, libhdf5's reads of payloads read nothing, but are noted: this is how to ask it where a chunk is
/// stored, which it finds quickly only in order to read it. For one thread.
class PayloadProbe {
public:
    PayloadProbe();
    ~PayloadProbe();
    PayloadProbe(const PayloadProbe&) = delete;
    PayloadProbe& operator=(const PayloadProbe&) = delete;

    std::uint64_t offset = 0;  ///< of the last read, from the signature on
    std::uint64_t length = 0;
};

/// Makes a new HDF5 file in `content`, which is empty and must outlive the result. `access` has the properties of its
/// access but for the driver. Null when libhdf5 cannot.
File create_bytes(SparseBytes& content, const Properties& access, const Properties& creation);

}  // namespace tpx::formats::hdf5
