// SPDX-License-Identifier: Apache-2.0
#include "formats/gguf/driver.hpp"

#include "formats/encodings/torch/text.hpp"
#include "formats/gguf/gguf.hpp"
#include "formats/recognise.hpp"

#include <array>

namespace tpx::formats {
namespace {

std::optional<Recognised> recognise_gguf(const FileStart& file) {
    if (!file.bytes.starts_with("GGUF")) return std::nullopt;
    return Recognised{file.path, &gguf_driver, "a GGUF file"};
}

constexpr std::array<std::string_view, 1> gguf_endings{".gguf"};

}  // namespace

constinit const Driver gguf_driver{
    .name = "gguf",
    .title = "GGUF, also quantized",
    .framework = "GGML",
    .weights_only = true,
    .values = ValuesIn::metadata,
    .precedence = 60,
    .recognise_file = recognise_gguf,
    .endings = gguf_endings,
    .folder_description = "a GGUF checkpoint",
    .open = [](const std::filesystem::path& path, MissingFiles) { return open_gguf(path); },
    .dequantize = gguf::dequantize,
    .reject_name = torch::reject_name,
};

}  // namespace tpx::formats
