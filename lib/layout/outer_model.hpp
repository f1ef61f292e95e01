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

/// A family with rules for the parts outside its language model that one checkpoint has.
struct WidenedFamily {
    std::shared_ptr<const Family> family;
    const Dialect* dialect = nullptr;  ///< that of the checkpoint
};

/// `family` with a tensor for each of the tensors `unknown` that belongs to a part of the outer model which `config`
/// names, or, if it names no model, of one that explains all of them. The outer model's dialects come first. Nothing if
/// there is no such model.
std::optional<WidenedFamily> widened(const Family& family, const Dialect& dialect, std::span<const Tensor> tensors,
                                     std::span<const std::uint32_t> unknown, const Config& config);

}  // namespace tpx
