// SPDX-License-Identifier: Apache-2.0
#include "formats/recognise.hpp"

#include "formats/deepspeed/deepspeed.hpp"
#include "formats/hdf5/hdf5.hpp"
#include "formats/held/document.hpp"
#include "formats/safetensors/header.hpp"
#include "formats/safetensors/safetensors.hpp"
#include "formats/torch/folder.hpp"
#include "lib/core/error.hpp"
#include "lib/core/file.hpp"
#include "lib/core/path.hpp"
#include "lib/core/unfinished.hpp"

#include <fcntl.h>

#include <nlohmann/json.hpp>

#include <algorithm>
#include <array>
#include <charconv>
#include <cstring>
#include <functional>
#include <utility>

namespace tpx::formats {
namespace {

namespace fs = std::filesystem;

constexpr const char* tracker = "latest_checkpointed_iteration.txt";

/// The first line of a small text file, without white space around it.
std::string first_line(const fs::path& path) {
    constexpr std::uint64_t longest = 4096;
    constexpr const char* blank = " \t\r\n";
    const std::string text = read_file(path, longest);
    const auto begin = text.find_first_not_of(blank);
    if (begin == text.npos) return {};
    const std::string line = text.substr(begin, text.find_first_of("\r\n", begin) - begin);
    return line.substr(0, line.find_last_not_of(blank) + 1);
}

/// Whether a file starts like safetensors: the length of a header that fits, and its brace.
bool starts_as_safetensors(std::string_view start, std::uint64_t size) {
    if (start.size() < 9 || start[8] != '{') return false;
    std::uint64_t length = 0;
    for (int k = 7; k >= 0; --k) length = length << 8 | static_cast<unsigned char>(start[k]);
    return length <= safetensors::longest_header && length <= size - 8;
}

constexpr const char* rank_files = "a Megatron legacy checkpoint";
constexpr const char* gguf_files = "a GGUF checkpoint";
constexpr const char* orbax =
    "an Orbax checkpoint, whose arrays lie in TensorStore's own database: restore it with orbax.checkpoint and save "
    "the "
    "arrays as safetensors (safetensors.flax.save_file)";
constexpr const char* flax =
    "a Flax msgpack file: restore it with flax.serialization and save the arrays as safetensors "
    "(safetensors.flax.save_file)";
constexpr const char* tensorflow =
    "a TensorFlow checkpoint: read it with tf.train.load_checkpoint and save the arrays as safetensors";
constexpr const char* hdf5_files = "an HDF5 checkpoint";

/// Whether `path` is seen to exist. Signs of formats that tpx cannot read may lie in folders that it may not enter.
bool shows(const fs::path& path) {
    try {
        return path_exists(path);
    } catch (const Error&) {
        return false;
    }
}

/// Whether Orbax writes an entry of this name: of an item, of a step, or a step's directory.
bool is_orbax(const fs::path& entry) {
    const std::string name = entry.filename().string();
    for (const char* sign : {"manifest.ocdbt", "_METADATA", "_CHECKPOINT_METADATA", "orbax.checkpoint"}) {
        if (name == sign || shows(entry / sign)) return true;
    }
    return name.find(".orbax-checkpoint-tmp") != name.npos || name.starts_with("ocdbt.process_");
}

/// Whether a file starts as a map of msgpack, as Flax writes one.
bool is_msgpack(const fs::path& path) {
    if (!path_is_file(path) || size_of_file(path) == 0) return false;
    std::string start(1, '\0');
    read_at(open_file(path, O_RDONLY), 0, std::as_writable_bytes(std::span{start}), path);
    const auto byte = static_cast<unsigned char>(start[0]);
    return (byte >= 0x80 && byte <= 0x8f) || byte == 0xde || byte == 0xdf;
}

Recognised recognise_file(const fs::path& path) {
    const std::string name = path.filename().string();
    std::string start(std::min<std::uint64_t>(size_of_file(path), 16), '\0');
    read_at(open_file(path, O_RDONLY), 0, std::as_writable_bytes(std::span{start}), path);
    const std::uint64_t size = size_of_file(path);
    if (name.ends_with(".distcp")) return {path, {}, {}};  // a part of a checkpoint, in a format of its own
    if (name == "pytorch_model.bin.index.json")
        return {path.parent_path(), Format::torch, "a Hugging Face checkpoint of torch.save files"};
    if (starts_as_safetensors(start, size) || name.ends_with(".safetensors") ||
        name.ends_with(".safetensors.index.json"))
        return {path, Format::safetensors, "a safetensors file"};
    if (start.starts_with(held::manifest_start)) return {path, Format::dcp, "training state that is held in memory"};
    if (start.starts_with("GGUF")) return {path, Format::gguf, "a GGUF file"};
    if (is_hdf5(path)) return {path, Format::hdf5, "an HDF5 file"};
    if (start.starts_with("PK\x03\x04") && name.ends_with(".keras")) return {path, Format::keras, "a Keras archive"};
    if (name.ends_with(".weights.json")) return {path, Format::keras, "sharded Keras weights"};
    if (start.starts_with("PK\x03\x04")) return {path, Format::torch, "a torch.save file"};
    if (name.ends_with(".msgpack") && is_msgpack(path)) return {path, {}, flax};
    if (start.size() > 1 && start[0] == '\x80' && start[1] >= 2 && start[1] <= 5)
        return {path, Format::torch_legacy, "a torch.save file"};
    return {path, {}, {}};
}

/// metadata.json's sharded_backend; empty when it has none.
std::string sharded_backend(const fs::path& path) {
    constexpr std::uint64_t longest = std::uint64_t{16} << 20;
    const nlohmann::json json = nlohmann::json::parse(read_file(path, longest), nullptr, false);
    if (json.is_discarded()) throw failure("{}: not JSON", path.string());
    if (!json.is_object() || !json.contains("sharded_backend")) return {};
    const nlohmann::json& backend = json["sharded_backend"];
    if (!backend.is_string()) throw failure("{}: sharded_backend is not a string", path.string());
    return backend.get<std::string>();
}

/// The directory of the iteration that a Megatron root points to.
fs::path tracked(const fs::path& root) {
    const std::string text = first_line(root / tracker);
    std::string name = text;
    if (text != "release") {
        std::uint32_t iteration = 0;
        const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), iteration);
        if (error != std::errc{} || end != text.data() + text.size())
            throw failure("{}: '{}' is neither a number nor 'release'", (root / tracker).string(), text);
        name = fmt::format("iter_{:07}", iteration);
    }
    if (!path_exists(root / name)) throw failure("{}: names {}, which is missing", (root / tracker).string(), name);
    return root / name;
}

/// The snapshot of a repository in the cache of the Hugging Face Hub, which has folders blobs/ and snapshots/: the one
/// that refs/main names or, if there is no such file, the only one. Empty if `repository` is no such folder, or has
/// several.
fs::path snapshot_of(const fs::path& repository) {
    const fs::path snapshots = repository / "snapshots";
    if (!path_is_directory(snapshots) || !path_is_directory(repository / "blobs")) return {};
    std::vector<std::string> names = list_directory(snapshots);
    std::erase_if(names, [&](const std::string& name) { return !path_is_directory(snapshots / name); });
    const fs::path main = repository / "refs" / "main";
    if (!path_exists(main)) return names.size() == 1 ? snapshots / names.front() : fs::path{};
    const std::string name = first_line(main);
    if (std::ranges::find(names, name) == names.end())
        throw failure("{}: names snapshot '{}', which is missing", main.string(), name);
    return snapshots / name;
}

/// What torch.save and others leave in a directory; empty when there is nothing of that kind.
std::string describe_entries(const fs::path& directory) {
    std::string found;
    for (const std::string& name : list_directory(directory)) {
        const fs::path entry = directory / name;
        if (name.starts_with("mp_rank_") &&
            (path_exists(entry / "model_optim_rng.pt") || path_exists(entry / "model_rng.pt")))
            return rank_files;
        if (is_orbax(entry)) return orbax;
        if (found.empty() && (name.ends_with(".msgpack") || name == "checkpoint") && is_msgpack(entry)) found = flax;
        if (found.empty() && name.find(".data-00000-of-") != name.npos) found = tensorflow;
        if (name.ends_with(".gguf")) found = gguf_files;
        if (name.ends_with(".h5") || name.ends_with(".hdf5") || name.ends_with(".keras")) found = hdf5_files;
        if (name.ends_with(".bin.index.json") || name.ends_with(".bin") || name.ends_with(".pt") ||
            name.ends_with(".pth"))
            found = "a torch.save checkpoint";
    }
    return found;
}

/// `may_descend`: a Megatron root may stand here; it may not point to another.
Recognised recognise_directory(const fs::path& path, bool may_descend) {
    if (path_exists(path / "metadata.json")) {
        const std::string backend = sharded_backend(path / "metadata.json");
        if (backend == "torch_dist") return {path, Format::torch_dist, "a torch_dist checkpoint"};
        if (backend == "zarr")
            return {path, Format::torch_dist, "a Megatron-core checkpoint of the former zarr backend"};
        if (!backend.empty()) return {path, {}, fmt::format("a Megatron-core checkpoint of backend '{}'", backend)};
    }
    if (path_exists(path / ".metadata")) {
        // Read as DCP, it would lose what common.pt holds: args, counters and the optimizer's settings.
        if (!path_exists(path / "metadata.json") && path_exists(path / "common.pt"))
            throw failure("{} is missing, though common.pt shows that this is a torch_dist checkpoint; restore it",
                          (path / "metadata.json").string());
        return {path, Format::dcp, "a DCP checkpoint"};
    }
    if (path_exists(path / "__0.metadata")) return {path, {}, "a DCP checkpoint with a metadata file for each rank"};
    if (may_descend && path_exists(path / tracker)) return recognise_directory(tracked(path), false);
    if (const DeepSpeedStep step = find_deepspeed(path); !step.step.empty()) {
        if (step.universal) return {path, Format::universal, "a DeepSpeed universal checkpoint"};
        return {path, Format::deepspeed, "a DeepSpeed checkpoint"};
    }
    const std::string other = describe_entries(path);
    if (other == rank_files) return {path, Format::megatron, other};
    // Hugging Face repositories hold the same weights in several formats; safetensors go before all but training state.
    if (holds_safetensors(path)) return {path, Format::safetensors, "a safetensors checkpoint"};
    if (holds_bin_files(path)) return {path, Format::torch, "a Hugging Face checkpoint of torch.save files"};
    if (other == gguf_files) return {path, Format::gguf, other};
    if (other == hdf5_files) return {path, Format::hdf5, other};
    if (const fs::path snapshot = may_descend ? snapshot_of(path) : fs::path{}; !snapshot.empty())
        return recognise_directory(snapshot, false);
    return {path, {}, other};
}

/// The number at the end of a name such as step-20 or iter_0000010.
std::optional<std::uint64_t> trailing_number(const fs::path& path) {
    const std::string name = path.filename().string();
    const std::string digits = name.substr(name.find_last_not_of("0123456789") + 1);
    std::uint64_t number = 0;
    const auto [end, error] = std::from_chars(digits.data(), digits.data() + digits.size(), number);
    return error == std::errc{} ? std::optional{number} : std::nullopt;
}

/// The checkpoint in the folder `path`; none if it cannot be read or is incomplete.
std::optional<Recognised> checkpoint_at(const fs::path& path) {
    try {
        if (!path_is_directory(path) || find_unfinished(path)) return std::nullopt;
        Recognised found = recognise_directory(path, true);
        if (!found.format) return std::nullopt;
        found.path = path.filename() == ".." ? real_path(path) : path;
        return found;
    } catch (const Error&) {
        return std::nullopt;
    }
}

std::vector<Recognised> checkpoints_below(const fs::path& folder) {
    constexpr std::size_t most_entries = 200;  // a shared file system may have millions
    std::vector<Recognised> found;
    std::vector<std::string> names;
    try {
        if (path_is_directory(folder)) names = list_directory(folder);
    } catch (const Error&) {
        return found;
    }
    const bool is_hub = std::ranges::find(names, "snapshots") != names.end();
    using Numbered = std::pair<std::uint64_t, const std::string*>;
    std::vector<Numbered> highest_first;
    for (const std::string& name : names) highest_first.emplace_back(trailing_number(name).value_or(0), &name);
    std::ranges::stable_sort(highest_first, std::greater{}, &Numbered::first);
    if (highest_first.size() > most_entries) highest_first.resize(most_entries);
    for (const auto& [number, entry] : highest_first)
        if (std::optional<Recognised> there = checkpoint_at(folder / *entry)) found.push_back(std::move(*there));
    return found.empty() && is_hub ? checkpoints_below(folder / "snapshots") : found;
}

}  // namespace

Recognised recognise(const fs::path& path) {
    const PathKind kind = path_kind(path);
    if (kind == PathKind::absent) throw system_failure(path, ENOENT);
    if (const auto unfinished = find_unfinished(path))
        throw failure("{}: {}; not a checkpoint", unfinished->folder.string(), unfinished->what);
    return kind == PathKind::directory ? recognise_directory(path, true) : recognise_file(path);
}

std::vector<Recognised> checkpoints_near(const fs::path& path) {
    if (std::vector<Recognised> found = checkpoints_below(path); !found.empty()) return found;
    const fs::path named = path.has_filename() ? path : path.parent_path();  // without a slash at the end
    const fs::path parent = named.has_parent_path() ? named.parent_path() : fs::path{"."};
    const fs::path here = path_is_directory(path) ? path / ".." : parent;
    for (const fs::path& above : {here, here / ".."})
        if (std::optional<Recognised> found = checkpoint_at(above)) return {std::move(*found)};
    return trailing_number(named) ? checkpoints_below(parent) : std::vector<Recognised>{};
}

}  // namespace tpx::formats
