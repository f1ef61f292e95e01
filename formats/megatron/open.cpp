// SPDX-License-Identifier: Apache-2.0
#include "formats/companions.hpp"
#include "formats/dcp/metadata.hpp"
#include "formats/encodings/torch/archive.hpp"
#include "formats/encodings/torch/kept.hpp"
#include "formats/megatron/driver.hpp"
#include "formats/megatron/torch_dist.hpp"
#include "formats/megatron/tracker.hpp"
#include "formats/megatron/zarr_chunks.hpp"
#include "formats/state/common_state.hpp"
#include "lib/core/error.hpp"
#include "lib/core/file.hpp"
#include "lib/core/path.hpp"

#include <fcntl.h>

#include <algorithm>
#include <array>
#include <nlohmann/json.hpp>
#include <string>
#include <string_view>
#include <utility>

namespace tpx::formats {
namespace {

namespace fs = std::filesystem;
using torch::Kind;
using torch::Value;

constexpr std::string_view common_object = "common_state/shard_0_1";
constexpr std::uint64_t small_file = 1 << 20;

using OpenChunks = void (*)(const fs::path& directory, Checkpoint& checkpoint, MissingFiles missing);

/// What reads the tensors and objects of each backend of dist_checkpointing.
constexpr std::array<std::pair<std::string_view, OpenChunks>, 2> chunk_readers{
    {{"torch_dist", open_chunks}, {"zarr", open_zarr_chunks}}};

OpenChunks backend_of(const fs::path& directory) {
    const fs::path path = directory / "metadata.json";
    if (!path_exists(path))
        throw failure("{}: No such file or directory; Megatron writes it last, so the checkpoint is incomplete",
                      path.string());
    const auto json = nlohmann::json::parse(read_file(path, small_file), nullptr, false);
    const auto backend = json.is_object() ? json.find("sharded_backend") : json.end();
    if (backend == json.end() || !backend->is_string()) throw failure("{}: no sharded_backend", path.string());
    const auto name = backend->get<std::string>();
    const auto* found = std::ranges::find(chunk_readers, name, &decltype(chunk_readers)::value_type::first);
    if (found == chunk_readers.end()) throw failure("{}: sharded_backend '{:.40}' is unknown", path.string(), name);
    return found->second;
}

std::shared_ptr<const Value> read_common_file(const fs::path& path, torch::Contents& storages) {
    const torch::Archive archive = torch::Archive::open(path);
    return kept_copy(archive, archive.root(), storages);
}

/// Newer Megatrons keep the common state as a ShardedObject: a list of one dict.
std::shared_ptr<const Value> read_common_object(const Catalogue& catalogue, const Object& object,
                                                torch::Contents& storages) {
    const fs::path path = catalogue.path(object.file);
    const Fd fd = open_file(path, O_RDONLY);
    const torch::Archive archive = torch::Archive::open({&fd, path, object.offset, object.length});
    return in_context([&] { return fmt::format("{}: object '{}'", path.string(), object.name); },
                      [&] {
                          const Value root = archive.root();
                          if (!root.is(Kind::list) || root.items().size() != 1)
                              throw failure("holds {}, not a list of one dict", root.describe());
                          return kept_copy(archive, root.items()[0], storages);
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
    if (!checkpoint.iteration) checkpoint.iteration = megatron::iteration_of(checkpoint.catalogue.directory);
    checkpoint.config = args_of(*checkpoint.common);
}

}  // namespace

Checkpoint open_torch_dist(const fs::path& directory_or_root, MissingFiles missing) {
    const bool root =
        !path_exists(directory_or_root / "metadata.json") && path_exists(directory_or_root / megatron::tracker_name);
    const fs::path directory = root ? megatron::tracked(directory_or_root) : directory_or_root;
    const OpenChunks open_backend = backend_of(directory);
    Checkpoint checkpoint;
    checkpoint.format = &torch_dist_driver;
    open_backend(directory, checkpoint, missing);
    read_common(checkpoint);
    read_config(checkpoint);
    read_companions(checkpoint, {"metadata.json"});
    return checkpoint;
}

}  // namespace tpx::formats
