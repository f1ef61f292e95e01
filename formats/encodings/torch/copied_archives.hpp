// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "formats/encodings/torch/archive.hpp"

#include <cstddef>
#include <filesystem>
#include <map>
#include <optional>

namespace tpx::torch {

/// Finds copies among the files of ranks that store different parts of a model: all storages have the same sizes and
/// CRC-32s.
class CopiedArchives {
public:
    /// `axes`: the fewest axes of the tensors that differ between ranks, unless their values are constant.
    explicit CopiedArchives(int axes) : axes_{axes} {}

    /// The path of an archive added before of which this one is a copy; unset if there is none, if CRC-32s are not
    /// recorded, and if the tensors that should differ contain only constants, such as zeros.
    std::optional<std::filesystem::path> add(const std::filesystem::path& path, const Archive& archive);

private:
    int axes_;
    std::map<std::size_t, std::filesystem::path> seen_;
};

}  // namespace tpx::torch
