// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "lib/core/handle.hpp"

#include <hdf5.h>

namespace tpx::formats::hdf5 {

template <herr_t (*Close)(hid_t)>
struct IdTraits {
    using Raw = hid_t;
    static Raw null() { return H5I_INVALID_HID; }
    static void free(Raw raw) noexcept { Close(raw); }
};
using File = Handle<IdTraits<H5Fclose>>;
using Group = Handle<IdTraits<H5Gclose>>;
using Dataset = Handle<IdTraits<H5Dclose>>;
using Object = Handle<IdTraits<H5Oclose>>;
using Attribute = Handle<IdTraits<H5Aclose>>;
using Space = Handle<IdTraits<H5Sclose>>;
using Type = Handle<IdTraits<H5Tclose>>;
using Properties = Handle<IdTraits<H5Pclose>>;

/// Creation properties for objects that record no times, so that equal contents make equal files. `type` is
/// H5P_FILE_CREATE (for the root), H5P_GROUP_CREATE or H5P_DATASET_CREATE.
inline Properties without_times(hid_t type) {
    Properties creation{H5Pcreate(type)};
    H5Pset_obj_track_times(creation.get(), false);
    return creation;
}

}  // namespace tpx::formats::hdf5
