// SPDX-License-Identifier: Apache-2.0
#include "formats/companions.hpp"
#include "formats/encodings/hdf5/tree.hpp"
#include "formats/hdf5/driver.hpp"
#include "formats/hdf5/hdf5.hpp"
#include "formats/hdf5/keras.hpp"
#include "formats/hdf5/opened_file.hpp"
#include "formats/hdf5/own_datasets.hpp"
#include "formats/settings/config_file.hpp"
#include "formats/settings/keras_config.hpp"
#include "lib/core/counted.hpp"
#include "lib/core/error.hpp"
#include "lib/core/path.hpp"

#include <fcntl.h>

#include <nlohmann/json.hpp>

#include <algorithm>
#include <set>

namespace tpx::formats {
namespace hdf5 {
namespace {

namespace fs = std::filesystem;

/// The files that make up the checkpoint at `path`.
struct Selection {
    fs::path directory;
    std::vector<fs::path> files;
    bool is_archive = false;
    bool is_sharded = false;  ///< parts of one Keras tree
};

bool ends_with_any(const std::string& name, std::initializer_list<std::string_view> endings) {
    return std::ranges::any_of(endings, [&](std::string_view ending) { return name.ends_with(ending); });
}

Selection select_one(const fs::path& path) {
    const std::string name = path.filename().string();
    if (name.ends_with(".weights.json")) return {path.parent_path(), keras_shards(path), false, true};
    return {path.parent_path(), {path.filename()}, name.ends_with(".keras") && !is_hdf5(path), false};
}

Selection select(const fs::path& path) {
    if (!path_is_directory(path)) return select_one(path);
    std::set<fs::path> files, indices, archives;
    for (const std::string& name : list_directory(path)) {
        if (!ends_with_any(name, {".weights.json", ".keras", ".h5", ".hdf5"}) || !path_is_file(path / name)) continue;
        if (name.ends_with(".weights.json")) indices.insert(path / name);
        if (name.ends_with(".keras")) archives.insert(path / name);
        if (ends_with_any(name, {".h5", ".hdf5"})) files.insert(name);
    }
    if (indices.size() > 1 || (indices.empty() && files.empty() && archives.size() > 1))
        throw failure("{}: contains several Keras checkpoints; pass one of the files", path.string());
    if (!indices.empty()) return select_one(*indices.begin());
    if (files.empty() && archives.empty())
        throw failure("{}: contains no regular file *.h5, *.hdf5 or *.keras", path.string());
    if (files.empty()) return select_one(*archives.begin());
    return {path, {files.begin(), files.end()}, false, false};
}

void keep_tree(std::span<const OpenedFile> files, std::span<const NamedDataset> datasets, Checkpoint& checkpoint) {
    auto tree = std::make_shared<Tree>();
    std::set<std::string> seen;
    for (const OpenedFile& file : files) {
        for (const GroupFacts& group : file.survey.groups) {
            if (seen.insert(group.path).second) tree->groups.push_back(group);
        }
    }
    for (const NamedDataset& dataset : datasets)
        tree->datasets[dataset.name] = {dataset.facts->path, dataset.facts->attributes, dataset.new_path};
    checkpoint.tree = std::move(tree);
}

/// Reads the configuration and version in a Keras archive, or a config.json beside weight files.
void read_keras_config(const Selection& selection, Checkpoint& checkpoint) {
    if (checkpoint.format != &keras_driver) return;
    auto tree = std::make_shared<Tree>(*checkpoint.tree);
    if (selection.is_archive) {
        const fs::path archive = checkpoint.catalogue.path(0);
        checkpoint.config_json = archive_text(archive, "config.json");
        const auto metadata = nlohmann::json::parse(archive_text(archive, "metadata.json"), nullptr, false);
        const auto version = metadata.is_object() ? metadata.find("keras_version") : metadata.end();
        if (version != metadata.end() && version->is_string()) tree->keras_version = *version;
    }
    if (is_keras_config(checkpoint.config_json)) tree->config = checkpoint.config_json;
    checkpoint.tree = std::move(tree);
}

/// Reads the iteration and the configuration from the root's attributes.
void read_root(const Survey& survey, Checkpoint& checkpoint) {
    const Attributes& attributes = survey.groups.at(0).attributes;
    for (const char* name : {"iteration", "step"}) {
        if (!checkpoint.iteration) checkpoint.iteration = number_of(attributes, name);
    }
    const std::string* config = text_of(attributes, "config");
    if (config == nullptr || !checkpoint.config_json.empty()) return;
    if (!nlohmann::json::parse(*config, nullptr, false).is_object()) return;
    checkpoint.config = parse_config_json(*config);
    checkpoint.config_json = *config;
}

/// Adds notes about links to nothing, and about attributes of types that tpx does not read.
void note_unread(std::span<const OpenedFile> files, Checkpoint& checkpoint) {
    for (const OpenedFile& file : files)
        for (const BrokenLink& link : file.survey.broken_links)
            checkpoint.notes.push_back(
                fmt::format("{}: '{}': ignored (a link to '{}', which the file does not contain)",
                            checkpoint.catalogue.files[file.number].path.string(), link.path, link.target));
    std::size_t count = 0;
    std::string first;
    const auto count_unread = [&](const std::string& path, const Attributes& attributes) {
        for (const AttributeValue& attribute : attributes)
            if (attribute.kind == AttributeValue::Kind::other && count++ == 0)
                first = fmt::format("{}@{}", path, attribute.name);
    };
    for (const OpenedFile& file : files) {
        for (const GroupFacts& group : file.survey.groups) count_unread(group.path, group.attributes);
        for (const DatasetFacts& dataset : file.survey.datasets) count_unread(dataset.path, dataset.attributes);
    }
    if (count > 0)
        checkpoint.notes.push_back(
            fmt::format("ignored {}, whose types tpx does not read, such as references to objects ('{}'{})",
                        counted(count, "attribute"), first, count > 1 ? ", ..." : ""));
}

void note_left_aside(std::span<const OpenedFile> files, std::span<const NamedDataset> datasets,
                     Checkpoint& checkpoint) {
    std::set<const DatasetFacts*> taken;
    for (const NamedDataset& dataset : datasets) taken.insert(dataset.facts);
    for (const OpenedFile& file : files) {
        for (const DatasetFacts& facts : file.survey.datasets) {
            if (taken.contains(&facts)) continue;
            checkpoint.notes.push_back(fmt::format("{}: dataset '{}': ignored ({})",
                                                   checkpoint.catalogue.files[file.number].path.string(), facts.path,
                                                   facts.kind.empty() ? "no attribute lists it" : facts.kind));
        }
    }
}

/// Whether several ranks wrote the pieces; chunks do not imply a layout.
bool has_ranks(const Catalogue& catalogue) {
    return std::ranges::any_of(catalogue.pieces, [](const Piece& piece) { return piece.rank > 0; });
}

void note_unwritten(std::span<const NamedDataset> datasets, Checkpoint& checkpoint) {
    for (const NamedDataset& dataset : datasets) {
        const DatasetFacts& facts = *dataset.facts;
        const bool never = (facts.storage == Storage::contiguous && !facts.written) ||
                           (facts.storage == Storage::chunked && facts.chunks.empty());
        if (never && std::ranges::count(facts.shape, 0u) == 0)
            checkpoint.notes.push_back(
                fmt::format("tensor '{}': was never written, and reads as its fill value", dataset.name));
    }
}

std::vector<NamedDataset> name_datasets(std::span<const OpenedFile> files, Checkpoint& checkpoint,
                                        const Selection& selection) {
    std::set<KerasFormat> kinds;
    for (const OpenedFile& file : files) kinds.insert(keras_format(file.survey, selection.files[0]));
    const bool is_keras = selection.is_archive || selection.is_sharded || !kinds.contains(KerasFormat::no);
    if (is_keras && files.size() > 1 && !selection.is_sharded)
        throw failure("{}: contains several Keras files but no index; pass one of the files",
                      selection.directory.string());
    checkpoint.format = &hdf5_driver;
    if (!is_keras) return own_datasets(files, checkpoint);
    const bool is_legacy = kinds.contains(KerasFormat::legacy);
    checkpoint.format = is_legacy ? &keras_legacy_driver : &keras_driver;
    if (!is_legacy) return keras_weights(files);
    return in_context([&] { return checkpoint.catalogue.path(0).string(); }, [&] { return keras_legacy(files[0]); });
}

}  // namespace
}  // namespace hdf5

bool is_hdf5(const std::filesystem::path& file) {
    constexpr std::string_view plan = "tpx.plan/";
    const std::uint64_t size = size_of_file(file);
    const Fd fd = open_file(file, O_RDONLY);
    std::string start(std::min<std::uint64_t>(size, plan.size()), '\0');
    read_at(fd, 0, std::as_writable_bytes(std::span{start}), file);
    return start != plan && hdf5::find_signature({&fd, file, 0, size, {}}).has_value();
}

Checkpoint open_hdf5(const std::filesystem::path& path) {
    const hdf5::Selection selection = hdf5::select(path);
    Checkpoint checkpoint;
    Catalogue& catalogue = checkpoint.catalogue;
    catalogue.directory = selection.directory;
    std::vector<hdf5::OpenedFile> files;
    for (const std::filesystem::path& name : selection.files)
        files.push_back(selection.is_archive ? hdf5::open_archive(catalogue, name) : hdf5::open_file(catalogue, name));
    if (path_is_directory(path)) {
        read_config(path, checkpoint);
        find_companions(path, checkpoint);
    }
    hdf5::read_root(files.at(0).survey, checkpoint);
    const auto datasets = hdf5::name_datasets(files, checkpoint, selection);
    hdf5::add_tensors(datasets, checkpoint);
    if (!hdf5::has_ranks(checkpoint.catalogue)) checkpoint.layout = Layout{};
    hdf5::keep_tree(files, datasets, checkpoint);
    hdf5::read_keras_config(selection, checkpoint);
    hdf5::note_left_aside(files, datasets, checkpoint);
    hdf5::note_unread(files, checkpoint);
    hdf5::note_unwritten(datasets, checkpoint);
    return checkpoint;
}

bool is_keras_model(const std::filesystem::path& file) {
    const std::string name = file.filename().string();
    return hdf5::ends_with_any(name, {".h5", ".hdf5", ".keras", ".weights.json"});
}

void add_keras_model(const std::filesystem::path& file, Checkpoint& checkpoint) {
    const auto is_keras = [](Format format) { return format == &keras_driver || format == &keras_legacy_driver; };
    if (!is_keras(checkpoint.format)) {
        if (!is_keras_model(file)) return;
        throw Error{Exit::usage, "--config: {} is a Keras model, but {} is not", file.string(),
                    checkpoint.catalogue.directory.string()};
    }
    auto tree = std::make_shared<hdf5::Tree>(*checkpoint.tree);
    if (is_keras_model(file)) {
        tree->like = std::make_shared<const Checkpoint>(open_hdf5(file));
        if (!is_keras(tree->like->format)) throw failure("{}: is not a Keras model", file.string());
        const hdf5::Tree& other = *tree->like->tree;
        if (!other.config.empty()) tree->config = other.config;
        if (tree->keras_version.empty()) tree->keras_version = other.keras_version;
    } else {
        constexpr std::uint64_t longest = 16 << 20;
        std::string text = read_file(file, longest);
        if (!hdf5::is_keras_config(text)) throw failure("{}: is not the configuration of a Keras model", file.string());
        tree->config = std::move(text);
    }
    if (!tree->config.empty()) checkpoint.config_json = tree->config;
    checkpoint.tree = std::move(tree);
}

}  // namespace tpx::formats
