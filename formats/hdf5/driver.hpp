// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "formats/hdf5/handles.hpp"
#include "formats/hdf5/survey.hpp"

namespace tpx::formats::hdf5 {

/// Opens `bytes` for reading with libhdf5, which sees nothing of the file but them. They must outlive the result, and
/// begin with HDF5's signature. Null when libhdf5 refuses them.
File open_bytes(const Bytes& bytes);

/// Makes a new HDF5 file in `file`, which is empty and open for reading and writing, and must outlive the result.
/// `access` has the properties of its access but for the driver. Null when libhdf5 cannot.
File create_bytes(const Fd& file, const Properties& access);

}  // namespace tpx::formats::hdf5
