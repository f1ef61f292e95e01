// SPDX-License-Identifier: Apache-2.0
#include "formats/hdf5/driver.hpp"

#include "formats/hdf5/hdf5.hpp"
#include "formats/hdf5/keras.hpp"
#include "formats/hdf5/values.hpp"
#include "formats/recognize.hpp"
#include "lib/core/utf8.hpp"

#include <array>

namespace tpx::formats {
namespace {

std::optional<RecognizedPath> recognize_hdf5(const FileStart& file) {
    return is_hdf5(file.path) ? std::optional{RecognizedPath{file.path, &hdf5_driver, "an HDF5 file"}} : std::nullopt;
}

std::optional<RecognizedPath> recognize_keras(const FileStart& file) {
    if (file.bytes.starts_with("PK\x03\x04") && file.name.ends_with(".keras"))
        return RecognizedPath{file.path, &keras_driver, "a Keras archive"};
    if (file.name.ends_with(".weights.json")) return RecognizedPath{file.path, &keras_driver, "sharded Keras weights"};
    return std::nullopt;
}

Checkpoint open_any_hdf5(const std::filesystem::path& path, MissingFiles) { return open_hdf5(path); }

std::string_view reject_hdf5_name(std::string_view name) {
    if (!is_valid_utf8(name)) return "has a name that is not UTF-8";
    return name.find('\0') == name.npos ? "" : "has a NUL in its name, where HDF5 ends it";
}

/// Whether only Keras 3 stores the tensor: RNG state, or the variables of an optimizer inside another one.
bool is_of_keras_3_only(std::string_view name) {
    return hdf5::is_keras_seed(name) || name.starts_with("optimizer.inner_optimizer.");
}

constexpr std::array<std::string_view, 1> hdf5_aliases{"h5"};
constexpr std::array<std::string_view, 3> hdf5_endings{".h5", ".hdf5", ".keras"};

}  // namespace

constinit const Driver hdf5_driver{
    .name = "hdf5",
    .title = "HDF5: modules are groups, one file per rank",
    .framework = "HDF5",
    .aliases = hdf5_aliases,
    .written = WritableFrom::any,
    .knows_optimizer = true,
    .is_resharded = true,
    .allows_other_files = false,
    .values = ValueStorage::attributes,
    .state_names = StateNames::by_parameter,
    .may_wrap_names = true,
    .keeps_masters = true,
    .precedence = 70,
    .recognize_file = recognize_hdf5,
    .endings = hdf5_endings,
    .folder_description = "an HDF5 checkpoint",
    .open = open_any_hdf5,
    .reject_name = reject_hdf5_name,
    .draft = [](const Content& content, std::vector<std::string>&) { return draft_hdf5(content); },
    .note_dropped = hdf5::note_dropped,
    .add_values = hdf5::add_attributes,
};

constinit const Driver keras_driver{
    .name = "keras",
    .title = "Keras 3: `.weights.h5`, sharded, `.keras`",
    .framework = "Keras",
    .written = WritableFrom::own_framework,
    .allows_other_files = false,
    .may_omit_config = true,
    .precedence = 80,
    .recognize_file = recognize_keras,
    .open = open_any_hdf5,
    .reject_name = reject_hdf5_name,
    .draft = [](const Content& content, std::vector<std::string>&) { return draft_keras(&keras_driver, content); },
};

constinit const Driver keras_legacy_driver{
    .name = "keras-legacy",
    .title = "Keras whole-model `.h5`",
    .framework = "Keras",
    .written = WritableFrom::own_framework,
    .allows_other_files = false,
    .may_omit_config = true,
    .values = ValueStorage::model_attributes,
    .precedence = 80,
    .open = open_any_hdf5,
    .reject_name = reject_hdf5_name,
    .cannot_store = is_of_keras_3_only,
    .draft = [](const Content& content,
                std::vector<std::string>&) { return draft_keras(&keras_legacy_driver, content); },
};

}  // namespace tpx::formats
