// SPDX-License-Identifier: Apache-2.0
#include "formats/zarr/names.hpp"

#include "formats/encodings/torch/text.hpp"

namespace tpx::formats::zarr {

std::string_view reject_name(std::string_view name) {
    constexpr std::size_t longest = 255;  // of file systems
    if (const std::string_view why = torch::reject_name(name); !why.empty()) return why;
    if (name.empty() || name.starts_with('.') || name.find_first_of(std::string_view{"/\0", 2}) != name.npos)
        return "has a name that cannot be that of a folder in a zarr checkpoint (empty, hidden, or with '/' or NUL)";
    if (name.size() > longest) return "has a name of more than 255 bytes, which cannot be that of a folder";
    if (name == "common.pt" || name == "metadata.json") return "has the name of a file of every zarr checkpoint";
    if (name.ends_with(".sync")) return "has a name that ends in .sync, as zarr's lock files do";
    return "";
}

bool is_object_name(std::string_view name) {
    constexpr std::string_view ending = ".pt";
    const std::size_t slash = name.find('/');
    if (slash == name.npos || !reject_name(name.substr(0, slash)).empty()) return false;
    const std::string_view shard = name.substr(slash + 1);
    return shard.starts_with("shard_") && shard.size() + ending.size() <= 255 && reject_name(shard).empty();
}

}  // namespace tpx::formats::zarr
