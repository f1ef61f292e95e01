// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "formats/driver.hpp"

namespace tpx::formats {

/// HDF5 with modules as groups, Keras 3, and Keras' legacy whole models.
extern const Driver hdf5_driver;
extern const Driver keras_driver;
extern const Driver keras_legacy_driver;

}  // namespace tpx::formats
