// SPDX-License-Identifier: Apache-2.0
#include "formats/encodings/safetensors/header.hpp"
#include "formats/safetensors/safetensors.hpp"
#include "lib/core/counted.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <vector>

namespace tpx::formats {
namespace {

std::vector<safetensors::Header> read_headers(const Checkpoint& checkpoint) {
    std::vector<safetensors::Header> headers;
    for (const FileEntry& file : checkpoint.catalogue.files)
        if (file.path.extension() == ".safetensors" && !file.coding)
            headers.push_back(safetensors::read_header(checkpoint.catalogue.directory / file.path));
    return headers;
}

}  // namespace

bool describes_file(std::string_view key) {
    return key == "format" || key.starts_with("DCP_") || key.starts_with("TPX_");
}

std::map<std::string, std::string> header_values(const Checkpoint& checkpoint) {
    std::map<std::string, std::string> values;
    for (const safetensors::Header& header : read_headers(checkpoint))
        for (const auto& [key, text] : header.metadata)
            if (!describes_file(key)) values.emplace(key, text);
    return values;
}

bool stores_alike(const Checkpoint& checkpoint, std::span<const Tensor> tensors) {
    std::map<std::string, DType, std::less<>> stored;
    for (const safetensors::Header& header : read_headers(checkpoint))
        for (const safetensors::Entry& entry : header.entries) stored.emplace(entry.name, entry.dtype);
    return std::ranges::all_of(tensors, [&](const Tensor& tensor) {
        const auto found = stored.find(tensor.name);
        return found != stored.end() &&
               found->second == (tensor.dtype == DType::f4_x2 ? DType::f4 : tensor.dtype);  // see pair_values()
    });
}

std::string dropped_values_note(const std::map<std::string, std::string>& values) {
    return fmt::format("dropped {} ('{}'{})", counted(values.size(), "safetensors header value"), values.begin()->first,
                       values.size() > 1 ? ", ..." : "");
}

}  // namespace tpx::formats
