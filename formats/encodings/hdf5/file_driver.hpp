// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "formats/encodings/hdf5/handles.hpp"
#include "formats/encodings/hdf5/sparse_bytes.hpp"
#include "formats/encodings/hdf5/survey.hpp"

namespace tpx::formats::hdf5 {

/// Opens `bytes` for reading with libhdf5, which sees no other bytes of the file. They must outlive the result, and
/// begin with HDF5's signature or a user block. Null if libhdf5 rejects them.
File open_bytes(const Bytes& bytes);

/// While a probe exists, libhdf5's reads of payloads on this thread read nothing; the probe records where they would
/// read. Reading a chunk this way finds out where it is stored: libhdf5 has no other fast way to look that up.
class PayloadProbe {
public:
    PayloadProbe();
    ~PayloadProbe();
    PayloadProbe(const PayloadProbe&) = delete;
    PayloadProbe& operator=(const PayloadProbe&) = delete;

    std::uint64_t offset = 0;  ///< of the last read, from the signature
    std::uint64_t length = 0;
};

/// Creates an HDF5 file in `content`, which is empty and must outlive the result. `access` contains the access
/// properties except for the driver. Null if libhdf5 fails.
File create_bytes(SparseBytes& content, const Properties& access, const Properties& creation);

}  // namespace tpx::formats::hdf5
