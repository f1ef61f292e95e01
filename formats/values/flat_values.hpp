// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "formats/encodings/torch/archive.hpp"
#include "formats/encodings/torch/archive_writer.hpp"
#include "formats/encodings/torch/value.hpp"

#include <cstddef>
#include <functional>
#include <string>
#include <string_view>

namespace tpx::formats {

/// Where the tensors of a pickled value are stored: in an archive, in memory, or in neither.
struct TensorBytes {
    const torch::Archive* archive = nullptr;
    const torch::Contents* storages = nullptr;
    bool catalogued = false;  ///< tensors are in the checkpoint's catalogue, and are skipped
};

/// Flattens pickled values into texts by path, which are the same for the same data in different classes: objects count
/// as dicts of their attributes, enum members as their values, tuples as lists, NumPy arrays as tensors.
class FlatValues {
public:
    using Add = std::function<void(const std::string& path, std::string text)>;
    /// Whether to skip the value at `path` without reading it.
    using Skip = std::function<bool(std::string_view path)>;

    FlatValues(Skip skip, Add add) : skip_{std::move(skip)}, add_{std::move(add)} {}

    /// Calls add for every value in `value`, which is at `path`. Lists of plain values are one value. Throws Error for
    /// values that cannot be flattened: storages without tensors, trees that contain themselves, too many values.
    void read(const std::string& path, torch::Value value, const TensorBytes& tensors);

private:
    void dict(const std::string& path, std::span<const torch::Entry> entries, const TensorBytes& tensors, int depth);
    void value(const std::string& path, torch::Value value, const TensorBytes& tensors, int depth);
    void plain(const std::string& path, torch::Value value, const torch::Contents& contents, int depth);
    void text(const std::string& path, std::string text);

    Skip skip_;
    Add add_;
    std::size_t count_ = 0;
};

}  // namespace tpx::formats
