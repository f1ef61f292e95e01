// SPDX-License-Identifier: Apache-2.0
#include "formats/safetensors/driver.hpp"

#include "formats/encodings/safetensors/header.hpp"
#include "formats/recognize.hpp"
#include "formats/safetensors/lost_shards.hpp"
#include "formats/safetensors/safetensors.hpp"
#include "formats/source.hpp"
#include "formats/state/value_text.hpp"
#include "lib/core/utf8.hpp"

#include <array>

namespace tpx::formats {
namespace {

/// Whether a file starts like safetensors: with the length of a header that fits, and its brace.
bool starts_as_safetensors(std::string_view start, std::uint64_t size) {
    if (start.size() < 9 || start[8] != '{') return false;
    std::uint64_t length = 0;
    for (int k = 7; k >= 0; --k) length = length << 8 | static_cast<unsigned char>(start[k]);
    return length <= safetensors::max_header_bytes && length <= size - 8;
}

std::optional<RecognizedPath> recognize_safetensors_file(const FileStart& file) {
    if (starts_as_safetensors(file.bytes, file.size) || file.name.ends_with(".safetensors") ||
        file.name.ends_with(".safetensors.index.json"))
        return RecognizedPath{file.path, &safetensors_driver, "a safetensors file"};
    return std::nullopt;
}

std::optional<RecognizedPath> recognize_safetensors_folder(const std::filesystem::path& folder) {
    if (!holds_safetensors(folder)) return std::nullopt;
    return RecognizedPath{folder, &safetensors_driver, "a safetensors checkpoint"};
}

std::string_view reject_safetensors_name(std::string_view name) {
    if (!is_valid_utf8(name)) return "has a name that is not UTF-8";
    return name == "__metadata__" ? "has the name that safetensors reserves" : "";
}

/// Adds the values in the headers of safetensors files.
void add_headers(const Checkpoint& checkpoint, const AddValue& add) {
    for (const auto& [key, text] : header_values(checkpoint)) add(key, quoted_text(text));
}

/// Notes that other formats have no headers for the values in those of safetensors files.
void note_headers(const Source& source, const Target& target, bool, std::vector<std::string>& notes) {
    if (target.format == &safetensors_driver) return;
    const auto values = header_values(source.checkpoint);
    if (!values.empty()) notes.push_back(dropped_values_note(values));
}

constexpr std::array<std::string_view, 3> safetensors_aliases{"hf", "huggingface", "transformers"};

}  // namespace

constinit const Driver safetensors_driver{
    .name = "safetensors",
    .title =
        "Hugging Face safetensors, one file or several with an index; DCP's per-rank safetensors; "
        "`pytorch_model*.bin` (read only)",
    .framework = "Hugging Face",
    .aliases = safetensors_aliases,
    .written = WritableFrom::any,
    .is_resharded = true,
    .is_hugging_face = true,
    .weights_only = true,
    .aligns_payloads = true,
    .values = ValueStorage::headers,
    .dialect = "hf",
    .may_wrap_names = true,
    .precedence = 50,  // before other formats of the same weights in a repository, but after training state
    .recognize_file = recognize_safetensors_file,
    .recognize_folder = recognize_safetensors_folder,
    .open = [](const std::filesystem::path& path, MissingFiles) { return open_safetensors(path); },
    .complete = safetensors::check_lost_shards,
    .reject_name = reject_safetensors_name,
    .draft = [](const Content& content, std::vector<std::string>& notes) { return draft_safetensors(content, &notes); },
    .note_dropped = note_headers,
    .add_values = add_headers,
};

}  // namespace tpx::formats
