// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "cmd/cli/options.hpp"
#include "formats/source.hpp"
#include "lib/layout/families.hpp"

#include <nlohmann/json.hpp>

#include <filesystem>
#include <memory>
#include <span>
#include <string>
#include <vector>

namespace tpx::cli {

/// A checkpoint as the options say it shall be read.
struct Opened {
    formats::Source source;
    bool copies_are_equal = false;  ///< tensors that conversions drop as copies were compared with the kept ones
};

/// Opens `path` with the rules and the configuration of `options`, which wins over `config`.
Opened open_checkpoint(const std::filesystem::path& path, const ReadOptions& options, Config config = {});

/// `path` without links, so that a link or tracker that is moved during the run leads nowhere else; as it is where no
/// link is on the way. Files keep their names, by which formats are told. Of "hold:NAME", the manifest of what is held.
std::string path_without_links(const std::filesystem::path& path);

/// The name of the file that a checkpoint is opened as; empty if `path` is a folder.
std::string name_of_file(const std::filesystem::path& path);

/// The configuration of --config and --set; the latter wins.
Config given_config(const ReadOptions& options);

/// Throws Error (usage) with the nearest known key for a --set that nothing asks for: neither tpx, the rules of
/// `families` nor `config`, that of the checkpoint.
void check_settings(const ReadOptions& options, const Families& families, const Config& config);

/// The layout that --to gives: a text, or a TOML file's name.
Layout given_layout(const std::string& text);

/// What `options` ask `source` to become.
formats::Target given_target(const TargetOptions& options, const ReadOptions& reading, const formats::Source& source);

/// A layout as a JSON object of its degrees, with "text" and "ranks".
nlohmann::ordered_json to_json(const Layout& layout);

/// "[4, 36]" as a JSON list.
nlohmann::ordered_json to_json(const Shape& shape);

/// A box as a JSON list of [begin, end) pairs.
nlohmann::ordered_json to_json(const Box& box);

}  // namespace tpx::cli
