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

/// Where the tensors of a pickled value are: in an archive, in memory, or in neither.
struct TensorBytes {
    const torch::Archive* archive = nullptr;
    const torch::Contents* storages = nullptr;
    bool catalogued = false;  ///< tensors belong to the checkpoint's tensors, and are passed over
};

/// Takes pickled values apart into texts by path, the same for the same data whatever classes hold it: objects count as
/// dicts of their attributes, members of enums as their values, tuples as lists, NumPy's arrays as tensors.
class FlatValues {
public:
    using Add = std::function<void(const std::string& path, std::string text)>;
    /// Whether to pass over what is at `path` without looking at it.
    using Skip = std::function<bool(std::string_view path)>;

    FlatValues(Skip skip, Add add) : skip_{std::move(skip)}, add_{std::move(add)} {}

    /// Calls add for every value in `value`, which is at `path`. Lists of plain values are one value. Throws Error for
    /// what cannot be taken apart: storages that are no tensor's, trees that contain themselves, too many values.
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
