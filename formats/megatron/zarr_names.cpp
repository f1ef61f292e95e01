// SPDX-License-Identifier: Apache-2.0
#include "formats/megatron/zarr_names.hpp"

#include "formats/encodings/torch/text.hpp"
#include "lib/core/unfinished.hpp"

#include <fmt/format.h>

#include <string>

namespace tpx::formats::zarr {

namespace {

constexpr std::size_t longest_name = 255;  // the limit of most file systems

/// The name of an object's file while it is written.
std::string file_name(std::string_view shard) { return unfinished_name(fmt::format("{}.pt", shard)).string(); }

}  // namespace

std::string_view reject_name(std::string_view name) {
    if (const std::string_view why = torch::reject_name(name); !why.empty()) return why;
    if (name.empty() || name.starts_with('.') || name.find_first_of(std::string_view{"/\0", 2}) != name.npos)
        return "has a name that cannot be a folder name in a zarr checkpoint: empty, starting with '.', or with '/' or "
               "NUL";
    if (name.size() > longest_name) return "has a name longer than 255 bytes, the limit for folder names";
    if (name == "common.pt" || name == "metadata.json")
        return "has the name of a file that every zarr checkpoint contains";
    if (name.ends_with(".sync")) return "has a name that ends in .sync, as zarr's lock files do";
    return "";
}

bool is_object_name(std::string_view name) {
    const std::size_t slash = name.find('/');
    if (slash == name.npos || !reject_name(name.substr(0, slash)).empty()) return false;
    const std::string_view shard = name.substr(slash + 1);
    return shard.starts_with("shard_") && file_name(shard).size() <= longest_name && reject_name(shard).empty();
}

}  // namespace tpx::formats::zarr
