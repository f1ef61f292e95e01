// SPDX-License-Identifier: Apache-2.0
#include "formats/companions.hpp"
#include "formats/encodings/safetensors/header.hpp"
#include "formats/folder_files.hpp"
#include "formats/safetensors/driver.hpp"
#include "formats/safetensors/safetensors.hpp"
#include "formats/safetensors/select_files.hpp"
#include "lib/core/counted.hpp"
#include "lib/core/coverage.hpp"
#include "lib/core/error.hpp"
#include "lib/core/name_list.hpp"

#include <algorithm>
#include <charconv>
#include <limits>
#include <set>
#include <tuple>

namespace tpx::formats {
namespace safetensors {
namespace {

namespace fs = std::filesystem;

constexpr auto unlisted = std::numeric_limits<std::uint32_t>::max();

/// One file's header, and the boxes of its tensors from its metadata.
struct File {
    Header header;
    std::optional<SavedOffsets> offsets;
    std::int32_t rank = -1;
};

const std::string* find(const Metadata& metadata, std::string_view key) {
    const auto found = std::ranges::find(metadata, key, &std::pair<std::string, std::string>::first);
    return found == metadata.end() ? nullptr : &found->second;
}

File read_one(const fs::path& path) {
    File file{.header = read_header(path), .offsets = {}};
    if (const std::string* info = find(file.header.metadata, "DCP_SHARDING_INFO"))
        file.offsets = in_context([&] { return path.string(); }, [&] { return parse_sharding_info(*info); });
    const std::string* own = find(file.header.metadata, file_key);
    if (own != nullptr && path.filename() != *own) throw failure("{}: was written as {}", path.string(), *own);
    const auto name = parse_part_name(path.filename().string());
    if (name && name->shard) file.rank = *name->shard - 1;
    return file;
}

/// The box of `entry` in its whole tensor.
Box saved_box(const File& file, const Entry& entry) {
    if (!file.offsets) return whole(entry.shape);
    const auto found = file.offsets->find(entry.name);
    if (found == file.offsets->end()) throw failure("DCP_SHARDING_INFO does not say where it starts");
    const Tuple<Index>& begin = found->second;
    if (begin.size() != entry.shape.size())
        throw failure("saved_offsets {} do not fit the shape {}", to_string(begin), to_string(entry.shape));
    Box box;
    for (int k = 0; k < begin.size(); ++k) {
        Index end = 0;
        if (__builtin_add_overflow(begin[k], entry.shape[k], &end))
            throw failure("saved_offsets {} are too large", to_string(begin));
        box.push_back({begin[k], end});
    }
    return box;
}

/// Makes pairs of F4 values the elements of `entry` and `box`, as PyTorch counts them, unless the box begins or ends
/// within a pair.
void pair_values(Entry& entry, Box& box) {
    if (entry.dtype != DType::f4 || box.empty()) return;
    const int last = box.size() - 1;
    if (box[last].begin % 2 != 0 || box[last].end % 2 != 0) return;
    entry.dtype = DType::f4_x2;
    entry.shape[last] /= 2;
    box[last] = {box[last].begin / 2, box[last].end / 2};
}

/// Joins the files of a selection into one catalogue.
class Joiner {
public:
    explicit Joiner(const Selection& selection) : selection_{selection} {
        catalogue_.directory = selection.directory;
        std::size_t total = 0;
        for (const fs::path& path : selection.files) {
            files_.push_back(read_one(selection.directory / path));
            if (selection.single_file) files_.back().rank = -1;  // read as a whole checkpoint, whatever its name
            catalogue_.files.push_back({path, files_.back().header.file_size});
            total += files_.back().header.entries.size();
        }
        // The lookup by name has views of the tensors' names, so tensors must not move.
        catalogue_.tensors.reserve(total);
        catalogue_.pieces.reserve(total);
        tensor_.reserve(total);
    }

    Catalogue join() {
        check_shards();
        for (std::uint32_t file = 0; file < files_.size(); ++file) {
            for (Entry& entry : files_[file].header.entries) {
                in_context([&] { return fmt::format("{}: tensor '{}'", catalogue_.path(file).string(), entry.name); },
                           [&] { add(file, entry); });
            }
            files_[file].header.entries = {};
        }
        for (const Piece& piece : catalogue_.pieces) check_piece(piece);
        if (!selection_.index.empty())
            in_context([&] { return (selection_.directory / selection_.index).string(); }, [&] { check_index(); });
        const auto place = [](const Piece& piece) { return std::tie(piece.tensor, piece.box, piece.file); };
        if (!std::ranges::is_sorted(catalogue_.pieces, {}, place)) std::ranges::sort(catalogue_.pieces, {}, place);
        in_context([&] { return selection_.directory.string(); }, [&] { find_holes(catalogue_); });
        return std::move(catalogue_);
    }

    /// Adds a line to `notes` if headers have different values of a key.
    void note_different_values(std::vector<std::string>& notes) const {
        std::map<std::string_view, std::string_view> values;
        std::set<std::string_view> different;
        for (const File& file : files_)
            for (const auto& [key, text] : file.header.metadata)
                if (!describes_file(key) && values.emplace(key, text).first->second != text) different.insert(key);
        if (different.empty()) return;
        notes.push_back(
            fmt::format("the headers of safetensors files have different values of {} ('{}'{}); using those of the "
                        "first file",
                        counted(different.size(), "key"), *different.begin(), different.size() > 1 ? ", ..." : ""));
    }

private:
    void add(std::uint32_t file, Entry& entry) {
        Box box = saved_box(files_[file], entry);
        pair_values(entry, box);
        const auto next = static_cast<std::uint32_t>(catalogue_.tensors.size());
        catalogue_.tensors.push_back({std::move(entry.name), entry.dtype, Shape(box.size())});
        const auto [found, fresh] = tensor_.emplace(catalogue_.tensors.back().name, next);
        if (fresh) {
            first_file_.push_back(file);
        } else {
            entry.name = std::move(catalogue_.tensors.back().name);
            catalogue_.tensors.pop_back();
            check_again(found->second, file, entry);
        }
        Tensor& tensor = catalogue_.tensors[found->second];
        for (int k = 0; k < box.size(); ++k) tensor.shape[k] = std::max(tensor.shape[k], box[k].end);
        const std::uint64_t offset = files_[file].header.buffer + entry.begin;
        catalogue_.pieces.push_back({found->second, file, offset, box, row_major(entry.shape), files_[file].rank});
    }

    /// Checks that `entry` can be another part of a known tensor.
    void check_again(std::uint32_t index, std::uint32_t file, const Entry& entry) const {
        const Tensor& tensor = catalogue_.tensors[index];
        const std::string other = catalogue_.files[first_file_[index]].path.string();
        if (!files_[file].offsets || !files_[first_file_[index]].offsets)
            throw failure("is also in {}, and neither file records which part it contains", other);
        if (entry.dtype != tensor.dtype || entry.shape.size() != tensor.shape.size())
            throw failure("is {} {} here and {} with {} dimensions in {}", name(entry.dtype), to_string(entry.shape),
                          name(tensor.dtype), tensor.shape.size(), other);
    }

    /// Checks that the whole tensor has a valid size, and that `piece` is whole if elements are smaller than a byte.
    void check_piece(const Piece& piece) const {
        const Tensor& tensor = catalogue_.tensors[piece.tensor];
        in_context([&] { return fmt::format("{}: tensor '{}'", catalogue_.path(piece.file).string(), tensor.name); },
                   [&] {
                       payload_size(tensor.dtype, tensor.shape);
                       if (itemsize(tensor.dtype) == 0 && piece.box != whole(tensor.shape))
                           throw failure("{} elements are smaller than a byte and cannot be split", name(tensor.dtype));
                   });
    }

    /// Checks that index and files agree in both directions.
    void check_index() const {
        std::uint64_t payload = 0;
        bool by_dcp = false;
        const std::vector<std::uint32_t> listed = listed_files();
        for (const Piece& piece : catalogue_.pieces) {
            const std::string& name = catalogue_.tensors[piece.tensor].name;
            const std::uint32_t file = listed[piece.tensor];
            if (file == unlisted) throw failure("tensor '{}': is in {} but not in the index", name, path_of(piece));
            if (file != piece.file)
                throw failure("tensor '{}': is in {}, but the index says {}", name, path_of(piece),
                              catalogue_.files[file].path.string());
        }
        for (const File& file : files_) {
            payload += file.header.file_size - file.header.buffer;
            by_dcp = by_dcp || file.offsets;
        }
        // Without save_distributed, PyTorch's writer lets all ranks write the same files, and the last one wins.
        if (by_dcp && selection_.map.total_size && *selection_.map.total_size != payload)
            throw failure(
                "counts {} bytes of tensors, but the files contain {}: ranks have overwritten each other's files",
                *selection_.map.total_size, payload);
    }

    /// The file of each tensor according to the index; a selection with an index has exactly the files of the index.
    std::vector<std::uint32_t> listed_files() const {
        std::vector<std::uint32_t> listed(catalogue_.tensors.size(), unlisted);
        std::size_t tensor = 0;  // entries are usually in the order of the files
        for (const auto& [name, file] : selection_.map.entries) {
            if (tensor == listed.size() || catalogue_.tensors[tensor].name != name) {
                const auto found = tensor_.find(name);
                if (found == tensor_.end())
                    throw failure("tensor '{}': is not in {}", name, catalogue_.files[file].path.string());
                tensor = found->second;
            }
            if (std::exchange(listed[tensor], file) != unlisted)
                throw failure("tensor '{}': appears twice in weight_map", name);
            ++tensor;
        }
        return listed;
    }

    std::string path_of(const Piece& piece) const { return catalogue_.files[piece.file].path.string(); }

    /// Checks that no file is missing if tpx wrote the files, which then record the number of ranks.
    void check_shards() const {
        std::map<int, std::set<int>> present;  // the parts of each shard
        std::map<int, int> last;               // the number of its last part
        std::set<int> shards;
        int ranks = 0;
        for (std::size_t file = 0; file < files_.size(); ++file) {
            const auto name = parse_part_name(selection_.files[file].filename().string());
            const std::string* count = find(files_[file].header.metadata, ranks_key);
            if (!name || !name->shard || count == nullptr) continue;
            std::from_chars(count->data(), count->data() + count->size(), ranks);
            present[*name->shard].insert(name->part);
            last[*name->shard] = name->parts;
            shards.insert(*name->shard);
        }
        const auto shard_name = [](int shard) { return fmt::format("shard {}", shard); };
        if (const NameList lost = absent_numbers(shards, 1, ranks, shard_name); lost.count() > 0)
            throw failure("{}: of {} shards, {}", selection_.directory.string(), ranks, lost.are_missing("shard"));
        for (const auto& [shard, parts] : present) {
            const NameList lost = absent_numbers(parts, 1, last[shard], [&](int part) {
                return fmt::format("shard-{:05}-model-{:05}-of-{:05}.safetensors", shard, part, last[shard]);
            });
            if (lost.count() > 0) throw failure("{}: {}", selection_.directory.string(), lost.are_missing());
        }
    }

    const Selection& selection_;
    Catalogue catalogue_;
    std::vector<File> files_;
    std::unordered_map<std::string_view, std::uint32_t> tensor_;
    std::vector<std::uint32_t> first_file_;  // of each tensor
};

void note_scalars(Checkpoint& checkpoint) {
    const auto scalar = [](const Tensor& tensor) { return tensor.shape.empty(); };
    const auto found = std::ranges::find_if(checkpoint.catalogue.tensors, scalar);
    if (found == checkpoint.catalogue.tensors.end()) return;
    checkpoint.notes.push_back(fmt::format(
        "tensor '{}': PyTorch leaves scalars zero when it joins files; sharded/ has their values", found->name));
}

}  // namespace
}  // namespace safetensors

Checkpoint open_safetensors(const std::filesystem::path& path) {
    const safetensors::Selection selection = safetensors::select_files(path);
    Checkpoint checkpoint;
    checkpoint.format = &safetensors_driver;
    checkpoint.notes = selection.notes;
    safetensors::Joiner joiner{selection};
    checkpoint.catalogue = joiner.join();
    joiner.note_different_values(checkpoint.warnings);
    if (selection.consolidated) safetensors::note_scalars(checkpoint);
    read_config(selection.directory, checkpoint);
    if (!selection.single_file) {
        find_companions(selection.directory, checkpoint);
        find_folder_files(selection.directory, checkpoint);
    } else if (!checkpoint.config_json.empty()) {
        checkpoint.companions = {"config.json"};
    }
    return checkpoint;
}

}  // namespace tpx::formats
