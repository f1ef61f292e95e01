// SPDX-License-Identifier: Apache-2.0
#include "formats/values/file_values.hpp"

#include "formats/driver.hpp"
#include "formats/encodings/hdf5/tree.hpp"
#include "formats/encodings/safetensors/header.hpp"
#include "formats/gguf/header.hpp"
#include "formats/hdf5/keras_config.hpp"
#include "formats/hdf5/own.hpp"
#include "formats/state/value_text.hpp"
#include "formats/values/config_values.hpp"
#include "formats/values/flat_values.hpp"
#include "lib/core/file.hpp"

#include <fcntl.h>
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <algorithm>
#include <array>
#include <map>
#include <span>
#include <string_view>
#include <vector>

namespace tpx::formats {
namespace {

/// Of a model of Keras, whose config.json may lie beside files of any format, what all of its forms can hold.
std::map<std::string, std::string> config(const Checkpoint& checkpoint) {
    const std::string& json = checkpoint.config_json;
    if (hdf5::is_keras_config(json)) return keras_values(hdf5::old_model_config(json), hdf5::old_training_config(json));
    if (checkpoint.format->values != ValuesIn::model_attributes || !checkpoint.tree) return config_values(json);
    const auto attribute = [&](std::string_view name) {
        for (const hdf5::GroupFacts& group : checkpoint.tree->groups)
            if (const std::string* text = hdf5::text_of(group.attributes, name)) return *text;
        return std::string{};
    };
    const std::string model = attribute("model_config");
    return model.empty() ? config_values(json) : keras_values(model, attribute("training_config"));
}

/// Values that safetensors files have in their headers.
void add_headers(const Checkpoint& checkpoint, const AddValue& add) {
    for (const FileEntry& file : checkpoint.catalogue.files) {
        if (file.path.extension() != ".safetensors") continue;
        for (const auto& [key, text] : safetensors::read_header(checkpoint.catalogue.directory / file.path).metadata) {
            if (key == "format" || key.starts_with("DCP_") || key.starts_with("TPX_")) continue;
            add(key, quoted_text(text));
        }
    }
}

void add_metadata(const Checkpoint& checkpoint, const AddValue& add) {
    // Keys of "split" say which of several files this is.
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

/// Attributes that tell of tpx's own files what the tensors tell, too, or that are told otherwise.
bool is_known(std::string_view name) {
    constexpr std::array<std::string_view, 11> known{
        hdf5::schema_key, hdf5::rank_key, hdf5::ranks_key, hdf5::dtype_key, hdf5::shape_key, hdf5::offset_key,
        hdf5::name_key,   hdf5::role_key, "iteration",     "step",          "config"};
    return std::ranges::find(known, name) != known.end();
}

std::string attribute_text(const hdf5::AttributeValue& attribute) {
    std::vector<std::string> texts;
    for (const std::string& text : attribute.texts) texts.push_back(quoted_text(text));
    for (const std::int64_t number : attribute.integers) texts.push_back(std::to_string(number));
    for (const double number : attribute.reals) texts.push_back(fmt::format("{}", number));
    return fmt::format("{}", fmt::join(texts, ", "));
}

/// Attributes of plain HDF5 files; those of Keras say what the format itself asks for.
void add_attributes(const Checkpoint& checkpoint, const AddValue& add) {
    if (checkpoint.format->values != ValuesIn::attributes) return;
    const auto add_all = [&](const std::string& at, const hdf5::Attributes& attributes) {
        for (const hdf5::AttributeValue& attribute : attributes)
            if (!is_known(attribute.name)) add(fmt::format("{}@{}", at, attribute.name), attribute_text(attribute));
    };
    if (checkpoint.iteration) add("iteration", std::to_string(*checkpoint.iteration));
    for (const hdf5::GroupFacts& group : checkpoint.tree->groups) add_all(group.path, group.attributes);
    for (const auto& [tensor, origin] : checkpoint.tree->datasets) add_all(tensor, origin.attributes);
}

}  // namespace

void add_file_values(const Checkpoint& checkpoint, const AddValue& add) {
    if (checkpoint.format->values == ValuesIn::headers) add_headers(checkpoint, add);
    if (checkpoint.tree) add_attributes(checkpoint, add);
    if (checkpoint.format->values == ValuesIn::metadata) add_metadata(checkpoint, add);
    for (const auto& [path, text] : config(checkpoint)) add(path, text);
}

}  // namespace tpx::formats
