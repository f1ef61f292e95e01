// SPDX-License-Identifier: Apache-2.0
#include "formats/megatron/dist_checkpointing.hpp"

#include "formats/companions.hpp"
#include "formats/driver.hpp"
#include "formats/encodings/torch/archive.hpp"
#include "formats/encodings/torch/keep_alive.hpp"
#include "formats/megatron/hybrid_pattern.hpp"
#include "formats/megatron/tracker.hpp"
#include "formats/state/common_state.hpp"
#include "lib/core/error.hpp"
#include "lib/core/file.hpp"
#include "lib/core/path.hpp"

#include <fcntl.h>

#include <algorithm>
#include <nlohmann/json.hpp>

namespace tpx::formats::megatron {
namespace {

namespace fs = std::filesystem;
using torch::Kind;
using torch::Value;

constexpr std::string_view common_object = "common_state/shard_0_1";

std::shared_ptr<const Value> read_common_file(const fs::path& path, torch::Contents& storages) {
    const torch::Archive archive = torch::Archive::open(path);
    return keep_copy_alive(archive, archive.root(), storages);
}

/// Newer versions of Megatron store the common state as a ShardedObject: a list of one dict.
std::shared_ptr<const Value> read_common_object(const Catalogue& catalogue, const Object& object,
                                                torch::Contents& storages) {
    const fs::path path = catalogue.path(object.file);
    const Fd fd = open_file(path, O_RDONLY);
    const torch::Archive archive = torch::Archive::open({&fd, path, object.offset, object.length});
    return in_context([&] { return fmt::format("{}: object '{}'", path.string(), object.name); },
                      [&] {
                          const Value root = archive.root();
                          if (!root.is(Kind::list) || root.items().size() != 1)
                              throw failure("contains {}, not a list of one dict", root.describe());
                          return keep_copy_alive(archive, root.items()[0], storages);
                      });
}

void read_common(Checkpoint& checkpoint) {
    Catalogue& catalogue = checkpoint.catalogue;
    const auto object = std::find_if(catalogue.objects.begin(), catalogue.objects.end(),
                                     [](const Object& item) { return item.name == common_object; });
    const fs::path file = catalogue.directory / "common.pt";
    if (path_exists(file))
        checkpoint.common = read_common_file(file, checkpoint.common_storages);
    else if (object != catalogue.objects.end())
        checkpoint.common = read_common_object(catalogue, *object, checkpoint.common_storages);
    else
        throw failure("{}: No such file or directory, nor is there an object '{}'", file.string(), common_object);
    if (object != catalogue.objects.end()) catalogue.objects.erase(object);
    if (!checkpoint.common->is(Kind::dict))
        throw failure("{}: the common state is {}", file.string(), checkpoint.common->describe());
}

void read_config(Checkpoint& checkpoint) {
    checkpoint.iteration = iteration_in(*checkpoint.common);
    if (!checkpoint.iteration) checkpoint.iteration = iteration_of(checkpoint.catalogue.directory);
    checkpoint.config = args_of(*checkpoint.common);
    add_layer_kinds(checkpoint.config);
}

}  // namespace

std::string sharded_backend(const fs::path& folder) {
    constexpr std::uint64_t longest = std::uint64_t{16} << 20;
    const fs::path path = folder / "metadata.json";
    if (!path_exists(path)) return {};
    const nlohmann::json json = nlohmann::json::parse(read_file(path, longest), nullptr, false);
    if (json.is_discarded()) throw failure("{}: not JSON", path.string());
    if (!json.is_object() || !json.contains("sharded_backend")) return {};
    const nlohmann::json& backend = json["sharded_backend"];
    if (!backend.is_string()) throw failure("{}: sharded_backend is not a string", path.string());
    return backend.get<std::string>();
}

fs::path distributed_folder(const fs::path& directory_or_root, std::string_view backend) {
    const bool is_root =
        !path_exists(directory_or_root / "metadata.json") && path_exists(directory_or_root / tracker_name);
    const fs::path folder = is_root ? tracked_directory(directory_or_root) : directory_or_root;
    const std::string path = (folder / "metadata.json").string();
    if (!path_exists(path))
        throw failure("{}: No such file or directory; Megatron writes it last, so the checkpoint is incomplete", path);
    const std::string found = sharded_backend(folder);
    if (found.empty()) throw failure("{}: no sharded_backend", path);
    if (found != backend) throw failure("{}: sharded_backend is '{:.40}', expected '{}'", path, found, backend);
    return folder;
}

void read_common_state(Checkpoint& checkpoint) {
    read_common(checkpoint);
    read_config(checkpoint);
    read_companions(checkpoint, {"metadata.json"});
}

}  // namespace tpx::formats::megatron
