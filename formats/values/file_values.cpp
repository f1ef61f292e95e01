// SPDX-License-Identifier: Apache-2.0
#include "formats/values/file_values.hpp"

#include "formats/encodings/hdf5/tree.hpp"
#include "formats/settings/keras_config.hpp"
#include "formats/values/config_values.hpp"
#include "lib/core/crc.hpp"
#include "lib/core/file.hpp"

#include <fcntl.h>
#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <map>
#include <string_view>
#include <vector>

namespace tpx::formats {
namespace {

/// The values of the model's configuration. For a Keras model, whose config.json may be beside files of any format,
/// those that all Keras formats can store.
std::map<std::string, std::string> config(const Checkpoint& checkpoint) {
    const std::string& json = checkpoint.config_json;
    if (hdf5::is_keras_config(json))
        return keras_values(hdf5::legacy_model_config(json), hdf5::legacy_training_config(json));
    if (checkpoint.format->values != ValueStorage::model_attributes || !checkpoint.tree) return config_values(json);
    const auto attribute = [&](std::string_view name) {
        for (const hdf5::GroupFacts& group : checkpoint.tree->groups)
            if (const std::string* text = hdf5::text_of(group.attributes, name)) return *text;
        return std::string{};
    };
    const std::string model = attribute("model_config");
    return model.empty() ? config_values(json) : keras_values(model, attribute("training_config"));
}

}  // namespace

void add_file_values(const Checkpoint& checkpoint, const AddValue& add) {
    if (const auto add_values = checkpoint.format->add_values) add_values(checkpoint, add);
    for (const auto& [path, text] : config(checkpoint)) add(path, text);
}

std::string content_text(const std::filesystem::path& path) {
    constexpr std::uint64_t most = 1 << 20;
    const std::uint64_t size = size_of_file(path);
    const Fd fd = open_file(path, O_RDONLY);
    std::vector<std::byte> block(std::min(size, most));
    std::uint64_t crc = 0;
    for (std::uint64_t at = 0; at < size; at += block.size()) {
        block.resize(std::min(size - at, most));
        read_at(fd, at, block, path);
        crc = Crc64::shift(crc, block.size()) ^ Crc64::of(block);
    }
    return fmt::format("file {:016x}-{}", crc, size);
}

}  // namespace tpx::formats
