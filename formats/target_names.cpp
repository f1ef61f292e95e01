// SPDX-License-Identifier: Apache-2.0
#include "formats/target_names.hpp"

#include "formats/roles.hpp"
#include "formats/torch/text.hpp"
#include "lib/core/error.hpp"
#include "lib/core/utf8.hpp"

#include <string>
#include <string_view>

namespace tpx::formats {
namespace {

constexpr bool is_hdf5(Format format) {
    return format == Format::hdf5 || format == Format::keras || format == Format::keras_legacy;
}

/// Why `name` cannot be a folder's; empty when it can.
std::string_view unfit_folder(std::string_view name) {
    constexpr std::size_t longest = 255;  // of nearly all file systems
    if (name.empty() || name == "." || name == "..") return "is not a folder name";
    if (name.find('/') != name.npos) return "has a '/', which no folder's name can have";
    if (name.find('\0') != name.npos) return "has a NUL, which no folder's name can have";
    if (name.size() > longest) return "has more than 255 bytes, which no folder's name can have";
    return {};
}

/// Why files of `format` cannot hold `name`; empty when they can.
std::string_view unfit(Format format, std::string_view name) {
    const bool strict = format == Format::safetensors || is_hdf5(format) || format == Format::universal;
    if (strict ? !is_valid_utf8(name) : !torch::is_utf8(name)) return "has a name that is not UTF-8";
    if (format == Format::safetensors && name == "__metadata__") return "has the name that safetensors reserves";
    if (is_hdf5(format) && name.find('\0') != name.npos) return "has a NUL in its name, where HDF5 ends it";
    return {};
}

}  // namespace

void check_names(Format format, std::span<const Tensor> tensors) {
    for (const Tensor& tensor : tensors) {
        std::string_view cause = unfit(format, tensor.name);
        if (cause.empty() && format == Format::universal && tensor.name.find('/') != tensor.name.npos)
            cause = unfit_folder(parameter_of(tensor.name));
        if (!cause.empty())
            throw failure("tensor '{}': {}, so {} cannot store it; rename it, or choose another --format", tensor.name,
                          cause, name(format));
    }
}

}  // namespace tpx::formats
