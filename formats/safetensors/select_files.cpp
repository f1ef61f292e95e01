// SPDX-License-Identifier: Apache-2.0
#include "formats/safetensors/select_files.hpp"

#include "formats/safetensors/safetensors.hpp"
#include "lib/core/error.hpp"
#include "lib/core/name_list.hpp"
#include "lib/core/path.hpp"

#include <fmt/ranges.h>

#include <algorithm>
#include <charconv>
#include <map>
#include <set>

namespace tpx::formats {
namespace safetensors {
namespace {

namespace fs = std::filesystem;

constexpr const char* whole_model = "model.safetensors";
constexpr const char* usual_index = "model.safetensors.index.json";
constexpr const char* tensor_ending = ".safetensors";
constexpr const char* index_ending = ".safetensors.index.json";

/// The names of files directly in `directory` that end in `ending`, sorted, except hidden ones.
std::vector<fs::path> names_ending(const fs::path& directory, std::string_view ending) {
    std::vector<fs::path> found;
    for (const std::string& name : list_directory(directory))
        if (name.ends_with(ending) && !name.starts_with('.')) found.emplace_back(name);
    return found;
}

/// The index to use in `directory`; empty if there is none.
fs::path choose_index(const fs::path& directory) {
    const std::vector<fs::path> indices = names_ending(directory, index_ending);
    if (indices.empty()) return {};
    if (std::ranges::find(indices, usual_index) != indices.end()) return usual_index;
    if (indices.size() == 1) return indices.front();
    throw failure("{}: contains both {} and {}; pass one of them", directory.string(), indices[0].string(),
                  indices[1].string());
}

/// Removes a number of five to nine digits, preceded by `before`, from the end of `text`; unset for other texts.
std::optional<int> take_number(std::string_view& text, std::string_view before) {
    const std::size_t digits = text.size() - (text.find_last_not_of("0123456789") + 1);
    if (digits < 5 || digits > 9) return std::nullopt;
    int number = 0;
    std::from_chars(text.data() + text.size() - digits, text.data() + text.size(), number);
    std::string_view rest = text.substr(0, text.size() - digits);
    if (!rest.ends_with(before)) return std::nullopt;
    text = rest.substr(0, rest.size() - before.size());
    return number;
}

Selection select_by_index(const fs::path& directory, const fs::path& index) {
    Selection selection{.directory = directory, .files = {}, .index = index, .map = {}, .notes = {}};
    selection.map = read_index(directory / index);
    selection.files = selection.map.files;
    NameList absent;
    for (const fs::path& file : selection.files)
        if (!path_is_file(directory / file)) absent.add(file.string());
    if (absent.count() > 0) throw failure("{}: {}", (directory / index).string(), absent.are_missing());
    return selection;
}

/// Throws Error if the names NAME-i-of-N show that a file is missing; adds notes about absent shards.
void check_parts(Selection& selection) {
    std::map<std::pair<std::string, int>, std::set<int>> parts;
    std::set<int> shards;
    for (const fs::path& file : selection.files) {
        const auto name = parse_part_name(file.filename().string());
        if (!name) continue;
        parts[{(name->shard ? "shard-*-" : "") + name->stem, name->parts}].insert(name->part);
        if (name->shard) shards.insert(*name->shard);
    }
    for (const auto& [key, present] : parts) {
        const NameList absent = absent_numbers(present, 1, key.second, [&](int part) {
            return fmt::format("{}-{:05}-of-{:05}.safetensors", key.first, part, key.second);
        });
        if (absent.count() > 0) throw failure("{}: {}", selection.directory.string(), absent.are_missing());
    }
    int next = 1;
    for (const int shard : shards) {
        if (shard > next) selection.notes.push_back(fmt::format("no file of shard {}: it was empty or is lost", next));
        next = shard + 1;
    }
}

Selection select_without_index(const fs::path& directory) {
    Selection selection{.directory = directory, .files = {}, .index = {}, .map = {}, .notes = {}};
    if (path_is_file(directory / whole_model)) {
        selection.files = {whole_model};
        return selection;
    }
    selection.files = names_ending(directory, tensor_ending);
    if (selection.files.empty()) {
        for (const fs::path& name : names_ending(directory / "sharded", tensor_ending))
            selection.files.push_back("sharded" / name);
    }
    check_parts(selection);
    return selection;
}

/// Adds notes about files that are present but not selected.
void note_others(Selection& selection) {
    const auto selected = [&](const fs::path& file) { return std::ranges::binary_search(selection.files, file); };
    const auto names = names_ending(selection.directory, tensor_ending);
    std::vector<std::string> others;
    for (const fs::path& name : names)
        if (!selected(name)) others.push_back(name.string());
    constexpr std::size_t shown = 5;
    if (const std::size_t count = others.size(); count > 0) {
        others.resize(std::min(count, shown));
        selection.notes.push_back(fmt::format("not carried over: weights other than {}: {}{}",
                                              selection.index.empty() ? whole_model : selection.index.string(),
                                              fmt::join(others, ", "),
                                              count > shown ? fmt::format(" and {} more", count - shown) : ""));
    }
    const auto sharded = names_ending(selection.directory / "sharded", tensor_ending);
    selection.consolidated = !sharded.empty() && !selected("sharded" / sharded.front());
    if (selection.consolidated)
        selection.notes.push_back(fmt::format(
            "ignored the files in sharded/ ({}): the same tensors are stored whole beside it", sharded.size()));
}

Selection select_in_directory(const fs::path& directory) {
    const fs::path index = choose_index(directory);
    Selection selection = index.empty() ? select_without_index(directory) : select_by_index(directory, index);
    const bool names_whole = std::ranges::find(selection.files, whole_model) != selection.files.end();
    if (!index.empty() && !names_whole && path_is_file(directory / whole_model))
        throw failure("{}: contains both {} and {}; pass one of them", directory.string(), whole_model, index.string());
    note_others(selection);
    return selection;
}

}  // namespace

std::optional<PartName> parse_part_name(std::string_view name) {
    if (!name.ends_with(tensor_ending)) return std::nullopt;
    name.remove_suffix(std::string_view(tensor_ending).size());
    const std::optional<int> parts = take_number(name, "-of-");
    if (!parts) return std::nullopt;
    const std::optional<int> part = take_number(name, "-");
    if (!part || name.empty()) return std::nullopt;
    PartName parsed{.shard = {}, .stem = std::string(name), .part = *part, .parts = *parts};
    std::string_view front = name.substr(0, name.find('-', std::min(name.size(), std::string_view("shard-").size())));
    const std::size_t length = front.size() + 1;
    const std::optional<int> shard = take_number(front, "shard-");
    if (shard && front.empty() && name.size() > length) {
        parsed.shard = shard;
        parsed.stem = name.substr(length);
    }
    return parsed;
}

Selection select_files(const fs::path& path) {
    if (path_is_directory(path)) return select_in_directory(path);
    const fs::path directory = path.has_parent_path() ? path.parent_path() : fs::path(".");
    const fs::path name = path.filename();
    if (name.string().ends_with(index_ending)) return select_by_index(directory, name);
    return {.directory = directory, .files = {name}, .index = {}, .map = {}, .notes = {}, .single_file = true};
}

}  // namespace safetensors

bool holds_safetensors(const std::filesystem::path& directory) {
    using safetensors::names_ending;
    return !names_ending(directory, safetensors::tensor_ending).empty() ||
           !names_ending(directory, safetensors::index_ending).empty() ||
           !names_ending(directory / "sharded", safetensors::tensor_ending).empty();
}

}  // namespace tpx::formats
