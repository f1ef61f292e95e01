// SPDX-License-Identifier: Apache-2.0
#include "formats/replaceable.hpp"

#include "formats/checkpoint.hpp"
#include "formats/files/digests_file.hpp"
#include "formats/recognize.hpp"
#include "lib/core/error.hpp"
#include "lib/core/file.hpp"
#include "lib/core/path.hpp"
#include "lib/core/read_record.hpp"

#include <sys/stat.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <string_view>

namespace tpx::formats {
namespace {

namespace fs = std::filesystem;
using Id = std::pair<std::uint64_t, std::uint64_t>;

Id id_of(const fs::path& path) {
    struct stat status {};
    if (::stat(path.c_str(), &status) != 0) throw system_failure(path, errno);
    return {status.st_dev, status.st_ino};
}

/// The ids of `path`, after following links, and of all folders above it, in that order.
std::vector<Id> ids_upwards(const fs::path& path) {
    std::vector<Id> ids;
    for (fs::path at = real_path(path);; at = at.parent_path()) {
        ids.push_back(id_of(at));
        if (at == at.parent_path()) return ids;
    }
}

bool contains(const std::vector<Id>& ids, const Id& id) { return std::ranges::find(ids, id) != ids.end(); }

/// Whether checkpoints often contain a file of this name that opening them may not read.
bool is_usual(const fs::path& name) {
    constexpr std::array<std::string_view, 22> usual{"config.json",
                                                     "generation_config.json",
                                                     "adapter_config.json",
                                                     "tokenizer.json",
                                                     "tokenizer_config.json",
                                                     "tokenizer.model",
                                                     "special_tokens_map.json",
                                                     "added_tokens.json",
                                                     "vocab.json",
                                                     "vocab.txt",
                                                     "merges.txt",
                                                     "spiece.model",
                                                     "preprocessor_config.json",
                                                     "processor_config.json",
                                                     "chat_template.json",
                                                     "chat_template.jinja",
                                                     "metadata.json",
                                                     "latest",
                                                     "latest_universal",
                                                     "latest_checkpointed_iteration.txt",
                                                     "zero_to_fp32.py",
                                                     digests_file_name};
    return name.string().ends_with(digests_file_name) || std::ranges::find(usual, name.string()) != usual.end();
}

bool same_bytes(const fs::path& a, const fs::path& b) {
    constexpr std::uint64_t largest = std::uint64_t{256} << 20;
    const std::uint64_t size = size_of_file(a);
    return size <= largest && size == size_of_file(b) && read_file(a) == read_file(b);
}

/// "'a', 'b' and 37 more".
std::string listed(const std::vector<fs::path>& names) {
    constexpr std::size_t most = 5;
    std::string text;
    for (std::size_t k = 0; k < names.size() && k < most; ++k)
        text += fmt::format("{}'{}'", k == 0 ? "" : ", ", names[k].string());
    if (names.size() > most) text += fmt::format(" and {} more", names.size() - most);
    return text;
}

/// A checkpoint, and the files that it consists of.
struct Opening {
    explicit Opening(const fs::path& path) {
        const ReadRecord record;
        const RecognizedPath found = recognize(path);
        if (found.description.empty()) throw failure("it is not a checkpoint");
        if (!found.format) throw failure("it is {}, which tpx cannot read", found.description);
        try {
            checkpoint = open(path);
        } catch (const Error& error) {
            throw failure("it cannot be opened as a checkpoint ({})", error.what());
        }
        for (const auto& [name, file] : record.files()) files.emplace(file.device, file.inode);
        for (std::uint32_t k = 0; k < checkpoint.catalogue.files.size(); ++k)
            files.insert(id_of(checkpoint.catalogue.path(k)));
    }
    Checkpoint checkpoint;
    std::set<Id> files;
};

/// Whether `folder` is a checkpoint of several files, including `file`.
bool is_part_of(const fs::path& file, const fs::path& folder) {
    try {
        const Opening opening{folder};
        return opening.files.size() > 1 && opening.files.contains(id_of(file));
    } catch (const Error&) {  // not a checkpoint
        return false;
    }
}

}  // namespace

Replaceable::Replaceable(const std::vector<fs::path>& sources, const Draft& draft) : sources_{sources}, draft_{draft} {}

void Replaceable::check(const fs::path& occupant) {
    check_apart(occupant);
    if (path_is_file(occupant)) return check_file(occupant);
    std::vector<Entry> entries = list(occupant);
    if (entries.empty() || entries == approved_) return;
    check_entries(occupant, entries);
    approved_ = std::move(entries);
}

void Replaceable::check_place(const fs::path& out) const {
    if (path_exists(out)) {
        try {
            return check_paths(out);
        } catch (const Error& reason) {
            throw failure("{}: exists, and --force cannot replace it: {}", out.string(), reason.what());
        }
    }
    const fs::path parent = out.has_parent_path() ? out.parent_path() : fs::path{"."};
    if (!path_is_directory(parent)) return;  // creating OUT reports it
    const std::vector<Id> above = ids_upwards(parent);
    for (const fs::path& source : sources_)
        if (path_is_directory(source) && contains(above, id_of(source)))
            throw failure("{}: is inside the input {}; choose an output path outside it", out.string(),
                          source.string());
}

void Replaceable::check_paths(const fs::path& occupant) const {
    const std::vector<Id> above = ids_upwards(occupant);
    for (const fs::path& source : sources_) {
        const std::vector<Id> around = ids_upwards(source);
        if (around.front() == above.front()) throw failure("it is the input {}", source.string());
        if (contains(around, above.front())) throw failure("it contains the input {}", source.string());
        if (path_is_directory(source) && contains(above, around.front()))
            throw failure("it is inside the input {}", source.string());
    }
}

void Replaceable::check_apart(const fs::path& occupant) const {
    check_paths(occupant);
    if (!path_is_directory(occupant)) return;
    std::set<Id> sources;
    for (const fs::path& source : sources_) sources.insert(id_of(source));
    // Paths reveal neither bind mounts nor hard links.
    for (const Entry& entry : list(occupant))
        if (sources.contains(entry.id)) throw failure("it contains the input '{}'", entry.path.string());
}

void Replaceable::check_file(const fs::path& occupant) const {
    const Opening opening{occupant};
    const std::size_t files = opening.checkpoint.catalogue.files.size();
    if (files > 1) throw failure("it is one of {} files of a checkpoint", files);
    // In every format, files are at most this deep below the folder of the checkpoint.
    fs::path folder = real_path(occupant).parent_path();
    for (int level = 0; level < 4 && folder != folder.parent_path(); ++level, folder = folder.parent_path())
        if (is_part_of(occupant, folder)) throw failure("it is part of the checkpoint {}", folder.string());
}

std::vector<Replaceable::Entry> Replaceable::list(const fs::path& folder) {
    std::vector<Entry> entries;
    const std::uint64_t device = id_of(folder).first;
    std::vector<fs::path> folders{fs::path{}};
    while (!folders.empty()) {
        const fs::path inside = folders.back();
        folders.pop_back();
        for (const std::string& name : list_directory(inside.empty() ? folder : folder / inside)) {
            struct stat status {};
            const fs::path path = folder / inside / name;
            if (::lstat(path.c_str(), &status) != 0) throw system_failure(path, errno);
            if (S_ISDIR(status.st_mode) && status.st_dev != device)
                throw failure("it contains a mount point: '{}'", (inside / name).string());
            if (S_ISDIR(status.st_mode)) folders.push_back(inside / name);
            if (S_ISLNK(status.st_mode) && path_is_file(path) && ::stat(path.c_str(), &status) != 0)
                throw system_failure(path, errno);
            const FileIdentity identity{status};
            entries.push_back({inside / name,
                               {identity.device, identity.inode},
                               identity.size,
                               identity.modified,
                               S_ISREG(status.st_mode)});
        }
    }
    return entries;
}

bool Replaceable::is_kept(const fs::path& file, const fs::path& inside) const {
    const auto copy = std::ranges::find_if(draft_.copies, [&](const Draft::Copy& each) {
        return draft_.files[each.file].path == inside && each.source_offset == 0 &&
               each.length == draft_.files[each.file].size;
    });
    return copy != draft_.copies.end() && same_bytes(file, copy->source);
}

void Replaceable::check_entries(const fs::path& folder, const std::vector<Entry>& entries) const {
    const std::set<Id> own = Opening{folder}.files;
    std::set<fs::path> parts{fs::path{}};  // files of the checkpoint, and the folders around them
    for (const Entry& entry : entries) {
        if (!entry.is_file || !own.contains(entry.id)) continue;
        for (fs::path at = entry.path; !at.empty(); at = at.parent_path()) parts.insert(at);
    }
    std::set<fs::path> foreign;
    for (const Entry& entry : entries) {  // each after its folder
        const fs::path parent = entry.path.parent_path();
        if (parts.contains(entry.path)) continue;
        const bool belongs = entry.is_file && parts.contains(parent) &&
                             (is_usual(entry.path.filename()) || is_kept(folder / entry.path, entry.path));
        if (!belongs) foreign.insert(entry.path);
    }
    std::vector<fs::path> outermost;
    for (const fs::path& path : foreign)
        if (!foreign.contains(path.parent_path())) outermost.push_back(path);
    if (!outermost.empty())
        throw failure("it contains files that are not part of a checkpoint and would be lost: {}", listed(outermost));
}

}  // namespace tpx::formats
