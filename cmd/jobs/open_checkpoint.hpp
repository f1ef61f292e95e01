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

/// A checkpoint that was opened according to the options.
struct OpenedCheckpoint {
    formats::Source source;
    bool copies_are_equal = false;  ///< tensors that conversions drop as copies were compared with the kept ones
};

/// Opens `path` with the rules and the configuration of `options`, which overrides `config`.
OpenedCheckpoint open_checkpoint(const std::filesystem::path& path, const ReadOptions& options, Config config = {});

/// `path` with symbolic links resolved, so that the run reads the same checkpoint even if a link or tracker changes;
/// unchanged if there are no links. Files keep their names, which identify formats. For "hold:NAME", the manifest of
/// the held state.
std::string path_without_links(const std::filesystem::path& path);

/// The name of the file that a checkpoint is opened as; empty if `path` is a folder.
std::string name_of_file(const std::filesystem::path& path);

/// The configuration of --config and --set; --set overrides --config.
Config config_from_options(const ReadOptions& options);

/// Throws Error (usage), with the nearest known key, if a key of --set is unknown to tpx, to the rules of `families`
/// and to `config`, the configuration of the checkpoint; also if a value should be a number and is not.
void check_settings(const ReadOptions& options, const Families& families, const Config& config);

/// The layout in `text`, or in the TOML file that `text` names.
Layout layout_from_text_or_file(const std::string& text);

/// The target of a conversion of `source` that `options` ask for.
formats::Target target_from_options(const TargetOptions& options, const ReadOptions& reading,
                                    const formats::Source& source);

/// A layout as a JSON object of its degrees, with "text" and "ranks".
nlohmann::ordered_json to_json(const Layout& layout);

/// "[4, 36]" as a JSON list.
nlohmann::ordered_json to_json(const Shape& shape);

/// A box as a JSON list of [begin, end) pairs.
nlohmann::ordered_json to_json(const Box& box);

}  // namespace tpx::cli
