// SPDX-License-Identifier: Apache-2.0
#include "formats/checkpoint.hpp"
