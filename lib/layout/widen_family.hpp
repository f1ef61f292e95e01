// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "lib/core/catalogue.hpp"
#include "lib/layout/config.hpp"
#include "lib/layout/family.hpp"

#include <cstdint>
#include <memory>
#include <optional>
#include <span>

namespace tpx {

/// A family extended by the tensors of one checkpoint that are outside its language model.
struct WidenedFamily {
    std::shared_ptr<const Family> family;
    const Dialect* dialect = nullptr;  ///< that of the checkpoint
};

/// Extends `family` by those tensors of `unknown` that belong to an outer model: the one that `config` names, or, if it
/// names none, the first whose parts match all of them. Dialects of the outer model come before the checkpoint's own.
/// Returns nothing if no outer model matches, or if rules cannot describe the tensors. Throws Error "tensor 'NAME':
/// ..." if a tensor's number of axes is not that of its part.
std::optional<WidenedFamily> widen_family(const Family& family, const Dialect& dialect, std::span<const Tensor> tensors,
                                          std::span<const std::uint32_t> unknown, const Config& config);

}  // namespace tpx
