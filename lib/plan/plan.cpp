// SPDX-License-Identifier: Apache-2.0
#include "lib/plan/plan.hpp"
