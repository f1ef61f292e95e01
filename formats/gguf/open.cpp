// SPDX-License-Identifier: Apache-2.0
#include "formats/gguf/driver.hpp"
#include "formats/gguf/gguf.hpp"
#include "formats/gguf/header.hpp"
#include "lib/core/error.hpp"
#include "lib/core/file.hpp"
#include "lib/core/name_list.hpp"
#include "lib/core/path.hpp"

#include <algorithm>
#include <array>
#include <map>
#include <set>

namespace tpx::formats {
namespace gguf {
namespace {

namespace fs = std::filesystem;

/// NAME-00002-of-00003.gguf.
struct PartName {
    std::string stem;
    int number = 0;
    int count = 0;
};

std::optional<PartName> part_of(const std::string& name) {
    constexpr std::string_view pattern = "-00000-of-00000.gguf";
    if (name.size() <= pattern.size()) return std::nullopt;
    const std::string tail = name.substr(name.size() - pattern.size());
    for (std::size_t k = 0; k < tail.size(); ++k) {
        const bool digit = tail[k] >= '0' && tail[k] <= '9';
        if (pattern[k] == '0' ? !digit : tail[k] != pattern[k]) return std::nullopt;
    }
    return PartName{name.substr(0, name.size() - pattern.size()), std::stoi(tail.substr(1, 5)),
                    std::stoi(tail.substr(10, 5))};
}

/// All parts of the model that one file, or a directory, belongs to.
std::vector<fs::path> select(const fs::path& path) {
    if (path_is_directory(path)) {
        std::set<fs::path> files;
        std::set<std::string> models;
        for (const std::string& name : list_directory(path)) {
            if (!name.ends_with(".gguf")) continue;
            files.insert(path / name);
            const auto part = part_of(name);
            models.insert(part ? part->stem : name);
        }
        if (models.size() > 1)
            throw failure("{}: contains {} models; pass one of their files", path.string(), models.size());
        if (files.empty() || !path_is_file(*files.begin()))
            throw failure("{}: contains no regular file *.gguf", path.string());
        return select(*files.begin());
    }
    const auto part = part_of(path.filename().string());
    if (!part) return {path};
    std::vector<fs::path> files;
    NameList absent;
    for (int k = 1; k <= part->count; ++k) {
        files.push_back(path.parent_path() / fmt::format("{}-{:05}-of-{:05}.gguf", part->stem, k, part->count));
        if (!path_exists(files.back())) absent.add(files.back().string());
    }
    if (absent.count() > 0) throw failure("{}", absent.are_missing());
    return files;
}

void check_split(const Header& header, const fs::path& file, std::size_t number, std::size_t count) {
    const auto entry = [&](const char* key) -> std::optional<std::int64_t> {
        const auto found = header.metadata.find(key);
        if (found == header.metadata.end()) return std::nullopt;
        const auto* value = std::get_if<std::int64_t>(&found->second);
        return value == nullptr ? std::nullopt : std::optional{*value};
    };
    const auto own = entry("split.no"), all = entry("split.count");
    if (all.value_or(0) > 1 && *all != static_cast<std::int64_t>(count))
        throw failure("{}: is one of {} parts, but {} were found (NAME-{:05}-of-{:05}.gguf)", file.string(), *all,
                      count, 1, *all);
    if (count > 1 && own && *own != static_cast<std::int64_t>(number))
        throw failure("{}: is part {}, but its name says {}", file.string(), *own + 1, number + 1);
}

void add(const Header& header, const fs::path& path, Checkpoint& checkpoint, std::set<std::string>& names) {
    Catalogue& catalogue = checkpoint.catalogue;
    const auto file = static_cast<std::uint32_t>(catalogue.files.size());
    catalogue.files.push_back({path.filename(), size_of_file(path)});
    for (const TensorInfo& info : header.tensors) {
        if (!names.insert(info.name).second)
            throw failure("{}: tensor '{}': is also in another part", path.string(), info.name);
        if (!info.type->dtype) {
            checkpoint.opaque.push_back(
                {info.name, std::string{info.type->name}, info.shape, file, info.offset, info.bytes});
            continue;
        }
        const auto number = static_cast<std::uint32_t>(catalogue.tensors.size());
        catalogue.tensors.push_back({info.name, *info.type->dtype, info.shape});
        if (info.bytes == 0) continue;
        catalogue.pieces.push_back({.tensor = number,
                                    .file = file,
                                    .offset = info.offset,
                                    .box = whole(info.shape),
                                    .strides = row_major(info.shape),
                                    .rank = 0});
    }
}

constexpr std::array<std::pair<std::string_view, GgmlType>, 15> value_types{{{"Q4_0", GgmlType::q4_0},
                                                                             {"Q4_1", GgmlType::q4_1},
                                                                             {"Q5_0", GgmlType::q5_0},
                                                                             {"Q5_1", GgmlType::q5_1},
                                                                             {"Q8_0", GgmlType::q8_0},
                                                                             {"Q2_K", GgmlType::q2_k},
                                                                             {"Q3_K", GgmlType::q3_k},
                                                                             {"Q4_K", GgmlType::q4_k},
                                                                             {"Q5_K", GgmlType::q5_k},
                                                                             {"Q6_K", GgmlType::q6_k},
                                                                             {"IQ4_NL", GgmlType::iq4_nl},
                                                                             {"IQ4_XS", GgmlType::iq4_xs},
                                                                             {"TQ1_0", GgmlType::tq1_0},
                                                                             {"TQ2_0", GgmlType::tq2_0},
                                                                             {"MXFP4", GgmlType::mxfp4}}};

std::optional<GgmlType> value_type(std::string_view name) {
    const auto* found = std::ranges::find(value_types, name, &decltype(value_types)::value_type::first);
    return found == value_types.end() ? std::nullopt : std::optional{found->second};
}

/// Adds a note about tensors that can only be compared.
void note_unreadable(Checkpoint& checkpoint) {
    std::map<std::string, int> counts;
    int all = 0;
    for (const OpaqueTensor& tensor : checkpoint.opaque)
        if (!value_type(tensor.type)) ++counts[tensor.type], ++all;
    if (all == 0) return;
    std::string text;
    for (const auto& [type, count] : counts) text += fmt::format("{}{} of {}", text.empty() ? "" : ", ", count, type);
    checkpoint.notes.push_back(fmt::format(
        "quantized tensors that can be compared, but not converted: {} ({}); tpx cannot dequantize these types", all,
        text));
}

}  // namespace

void dequantize(Checkpoint& checkpoint, DType dtype) {
    Catalogue& catalogue = checkpoint.catalogue;
    for (const OpaqueTensor& tensor : checkpoint.opaque) {
        const auto type = value_type(tensor.type);
        if (!type)
            throw failure("tensor '{}': is quantized as {}, which tpx cannot dequantize", tensor.name, tensor.type);
        const TypeSize block = size_of_type(tensor.type);
        auto blocks = std::make_shared<const GgmlTensor>(GgmlTensor{.type = *type,
                                                                    .file = tensor.file,
                                                                    .offset = tensor.offset,
                                                                    .block_elements = block.elements,
                                                                    .block_bytes = block.bytes,
                                                                    .elements = volume(tensor.shape),
                                                                    .dtype = dtype});
        auto coding = std::make_shared<const Coding>(
            Coding::of_values(std::move(blocks), fmt::format("tensor '{}'", tensor.name)));
        const FileEntry entry{catalogue.files[tensor.file].path, coding->size, coding};
        const auto number = static_cast<std::uint32_t>(catalogue.tensors.size());
        catalogue.tensors.push_back({tensor.name, dtype, tensor.shape});
        if (tensor.bytes == 0) continue;
        catalogue.pieces.push_back({.tensor = number,
                                    .file = static_cast<std::uint32_t>(catalogue.files.size()),
                                    .box = whole(tensor.shape),
                                    .strides = row_major(tensor.shape),
                                    .rank = 0});
        catalogue.files.push_back(entry);
    }
    checkpoint.opaque.clear();
}

}  // namespace gguf

Checkpoint open_gguf(const std::filesystem::path& path) {
    const auto files = gguf::select(path);
    Checkpoint checkpoint{.format = &gguf_driver};
    checkpoint.catalogue.directory = files[0].parent_path();
    std::set<std::string> names;
    for (std::size_t k = 0; k < files.size(); ++k) {
        gguf::Header header = gguf::read_header(files[k]);
        gguf::check_split(header, files[k], k, files.size());
        if (k == 0) checkpoint.config = std::move(header.metadata);
        gguf::add(header, files[k], checkpoint, names);
    }
    gguf::note_unreadable(checkpoint);
    return checkpoint;
}

}  // namespace tpx::formats
