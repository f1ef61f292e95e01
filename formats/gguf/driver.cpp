// SPDX-License-Identifier: Apache-2.0
#include "formats/gguf/driver.hpp"

#include "formats/encodings/torch/text.hpp"
#include "formats/gguf/gguf.hpp"
#include "formats/gguf/header.hpp"
#include "formats/recognize.hpp"
#include "formats/state/value_text.hpp"
#include "lib/core/file.hpp"

#include <fcntl.h>

#include <array>

namespace tpx::formats {
namespace {

std::optional<RecognizedPath> recognize_gguf(const FileStart& file) {
    if (!file.bytes.starts_with("GGUF")) return std::nullopt;
    return RecognizedPath{file.path, &gguf_driver, "a GGUF file"};
}

/// Adds a file's metadata; digests instead of lists.
void add_metadata(const Checkpoint& checkpoint, const AddValue& add) {
    // Ignores "split." keys, which only number the parts of a model.
    for (const auto& [key, value] : checkpoint.config)
        if (!key.starts_with("split.")) add(fmt::format("config.{}", key), config_text(value));
    const std::filesystem::path file = checkpoint.catalogue.path(0);
    const Fd fd = open_file(file, O_RDONLY);
    for (const auto& [key, place] : gguf::read_header(file).lists) {
        std::string bytes(place.bytes, '\0');
        read_at(fd, place.offset, std::as_writable_bytes(std::span{bytes}), file);
        add(fmt::format("config.{}", key), fmt::format("list of {}", bytes_text(bytes)));
    }
}

constexpr std::array<std::string_view, 1> gguf_endings{".gguf"};

}  // namespace

constinit const Driver gguf_driver{
    .name = "gguf",
    .title = "GGUF, also quantized",
    .framework = "GGML",
    .weights_only = true,
    .values = ValueStorage::metadata,
    .precedence = 60,
    .recognize_file = recognize_gguf,
    .endings = gguf_endings,
    .folder_description = "a GGUF checkpoint",
    .open = [](const std::filesystem::path& path, MissingFiles) { return open_gguf(path); },
    .dequantize = gguf::dequantize,
    .reject_name = torch::reject_name,
    .add_values = add_metadata,
};

}  // namespace tpx::formats
