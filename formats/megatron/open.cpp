// SPDX-License-Identifier: Apache-2.0
#include "formats/dcp/kept.hpp"
#include "formats/dcp/metadata.hpp"
#include "formats/megatron/torch_dist.hpp"
#include "formats/torch/archive.hpp"
#include "lib/core/error.hpp"
#include "lib/core/file.hpp"

#include <fcntl.h>

#include <algorithm>
#include <charconv>
#include <nlohmann/json.hpp>
#include <string>
#include <string_view>

namespace tpx::formats {
namespace {

namespace fs = std::filesystem;
using torch::Kind;
using torch::Value;

constexpr std::string_view tracker_name = "latest_checkpointed_iteration.txt";
constexpr std::string_view common_object = "common_state/shard_0_1";
constexpr std::uint64_t small_file = 1 << 20;

std::optional<std::int64_t> number(std::string_view text) {
    std::int64_t value = -1;
    const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
    if (error != std::errc{} || end != text.data() + text.size() || value < 0) return std::nullopt;
    return value;
}

/// The number in the name of a directory iter_NNNNNNN.
std::optional<std::int64_t> iteration_of(const fs::path& directory) {
    const std::string name = directory.filename().string();
    return name.starts_with("iter_") ? number(std::string_view{name}.substr(5)) : std::nullopt;
}

/// The directory that the tracker file of `root` names.
fs::path tracked(const fs::path& root) {
    const fs::path path = root / tracker_name;
    std::string text = read_file(path, small_file);
    text.erase(text.find_last_not_of(" \r\n\t") + 1);
    if (text == "release") return root / "release";
    const auto iteration = number(text);
    if (!iteration) throw failure("{}: '{:.40}' is no iteration", path.string(), text);
    return root / fmt::format("iter_{:07}", *iteration);
}

void check_backend(const fs::path& directory) {
    const fs::path path = directory / "metadata.json";
    if (!fs::exists(path))
        throw failure("{}: No such file or directory; Megatron writes it last, so the checkpoint is incomplete",
                      path.string());
    const auto json = nlohmann::json::parse(read_file(path, small_file), nullptr, false);
    const auto backend = json.is_object() ? json.find("sharded_backend") : json.end();
    if (backend == json.end() || !backend->is_string()) throw failure("{}: no sharded_backend", path.string());
    const auto name = backend->get<std::string>();
    if (name == "zarr")
        throw failure(
            "{}: the zarr backend (removed in Megatron-core 0.16) is not supported; load the checkpoint with "
            "an older Megatron and save it as torch_dist",
            path.string());
    if (name != "torch_dist") throw failure("{}: sharded_backend '{:.40}' is unknown", path.string(), name);
}

std::shared_ptr<const Value> read_common_file(const fs::path& path) {
    return kept_copy(torch::Archive::open(path).root());
}

/// Newer Megatrons keep the common state as a ShardedObject: a list of one dict.
std::shared_ptr<const Value> read_common_object(const Catalogue& catalogue, const Object& object) {
    const fs::path path = catalogue.path(object.file);
    const Fd fd = open_file(path, O_RDONLY);
    const torch::Archive archive = torch::Archive::open({&fd, path, object.offset, object.length});
    return in_context([&] { return fmt::format("{}: object '{}'", path.string(), object.name); },
                      [&] {
                          const Value root = archive.root();
                          if (!root.is(Kind::list) || root.items().size() != 1)
                              throw failure("holds {}, not a list of one dict", root.describe());
                          return kept_copy(root.items()[0]);
                      });
}

void read_common(Checkpoint& checkpoint) {
    Catalogue& catalogue = checkpoint.catalogue;
    const auto object = std::find_if(catalogue.objects.begin(), catalogue.objects.end(),
                                     [](const Object& item) { return item.name == common_object; });
    const fs::path file = catalogue.directory / "common.pt";
    if (fs::exists(file))
        checkpoint.common = read_common_file(file);
    else if (object != catalogue.objects.end())
        checkpoint.common = read_common_object(catalogue, *object);
    else
        throw failure("{}: No such file or directory, nor is there an object '{}'", file.string(), common_object);
    if (object != catalogue.objects.end()) catalogue.objects.erase(object);
    if (!checkpoint.common->is(Kind::dict))
        throw failure("{}: the common state is {}", file.string(), checkpoint.common->describe());
}

std::optional<ConfigValue> scalar(Value value) {
    switch (value.kind()) {
        case Kind::none:
            return nullptr;
        case Kind::boolean:
            return value.as_bool();
        case Kind::integer:
            return value.as_int();
        case Kind::real:
            return value.as_real();
        case Kind::string:
            return std::string{value.as_string()};
        default:
            return std::nullopt;
    }
}

void read_config(Checkpoint& checkpoint) {
    const Value common = *checkpoint.common;
    checkpoint.iteration = iteration_of(checkpoint.catalogue.directory);
    if (const auto iteration = common.find("iteration"); iteration && iteration->is(Kind::integer))
        checkpoint.iteration = iteration->as_int();
    const auto args = common.find("args");
    if (!args || !args->is(Kind::object) || !args->as_object().state.is(Kind::dict)) return;
    for (const auto& [key, value] : args->as_object().state.entries()) {
        auto found = scalar(value);
        if (key.is(Kind::string) && found) checkpoint.config[std::string{key.as_string()}] = std::move(*found);
    }
}

}  // namespace

Checkpoint open_torch_dist(const fs::path& directory_or_root) {
    const bool root = !fs::exists(directory_or_root / "metadata.json") && fs::exists(directory_or_root / tracker_name);
    const fs::path directory = root ? tracked(directory_or_root) : directory_or_root;
    check_backend(directory);
    Checkpoint checkpoint;
    checkpoint.format = Format::torch_dist;
    open_chunks(directory, checkpoint);
    read_common(checkpoint);
    read_config(checkpoint);
    return checkpoint;
}

}  // namespace tpx::formats
