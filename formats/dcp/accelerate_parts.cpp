// SPDX-License-Identifier: Apache-2.0
#include "formats/dcp/accelerate_parts.hpp"

#include "formats/encodings/dcp/metadata.hpp"
#include "formats/encodings/torch/keep_alive.hpp"
#include "lib/core/error.hpp"
#include "lib/core/path.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <iterator>
#include <set>
#include <utility>

namespace tpx::formats {
namespace {

constexpr std::string_view model_part = "pytorch_model_fsdp_0";
constexpr std::string_view optimizer_part = "optimizer_0";

bool is_weights_file(const std::string& name) {
    return name.ends_with(".safetensors") || (name.starts_with("pytorch_model") && name.ends_with(".bin"));
}

/// Joins checkpoints of subfolders.
class PartJoiner {
public:
    explicit PartJoiner(Checkpoint& whole) : whole_{whole} {}

    void add(const std::string& folder, Checkpoint part) {
        Catalogue& from = part.catalogue;
        Catalogue& to = whole_.catalogue;
        const auto files = static_cast<std::uint32_t>(to.files.size());
        const auto tensors = static_cast<std::uint32_t>(to.tensors.size());
        for (const Tensor& tensor : from.tensors) claim(tensor.name, folder);
        for (FileEntry& file : from.files) file.path = folder / file.path;
        for (Piece& piece : from.pieces) piece.file += files, piece.tensor += tensors;
        for (Object& object : from.objects) claim(object.name, folder), object.file += files;
        for (const std::uint32_t file : part.missing_files) whole_.missing_files.insert(files + file);
        append(to.files, from.files);
        append(to.tensors, from.tensors);
        append(to.pieces, from.pieces);
        append(to.objects, from.objects);
        append(whole_.archives, part.archives);
        if (whole_.save_id.empty()) whole_.save_id = part.save_id;
        if (!part.planner_data)
            throw failure("{}/.metadata: has no planner_data, which is needed to join the parts; pass the parts alone",
                          folder);
        for (const torch::Entry& entry : part.planner_data->entries()) paths_.push_back(entry);
        parts_.push_back(std::move(part));
    }

    void finish() {
        torch::Document paths;
        whole_.planner_data = keep_copy_alive(paths.dict(paths_));
    }

private:
    template <class T>
    static void append(std::vector<T>& to, std::vector<T>& from) {
        std::ranges::move(from, std::back_inserter(to));
    }

    void claim(const std::string& name, const std::string& folder) {
        if (!names_.insert(name).second) throw failure("{}: '{}' is also in {}", folder, name, model_part);
    }

    Checkpoint& whole_;
    std::set<std::string> names_;
    std::vector<torch::Entry> paths_;
    std::vector<Checkpoint> parts_;  // own the values of `paths_`
};

}  // namespace

std::vector<std::string> accelerate_parts(const std::filesystem::path& folder) {
    if (!path_exists(folder / model_part / ".metadata")) return {};
    for (const char* second : {"pytorch_model_fsdp_1", "optimizer_1"})
        if (path_exists(folder / second)) return {};
    if (std::ranges::any_of(list_directory(folder), is_weights_file)) return {};
    std::vector<std::string> parts{std::string{model_part}};
    if (path_exists(folder / optimizer_part)) parts.emplace_back(optimizer_part);
    return parts;
}

void open_accelerate_parts(const std::filesystem::path& folder, Checkpoint& checkpoint, MissingFiles missing) {
    checkpoint.catalogue.directory = folder;
    PartJoiner joiner{checkpoint};
    for (const std::string& name : accelerate_parts(folder)) {
        Checkpoint part;
        open_chunks(folder / name, part, missing);
        in_context([&] { return folder.string(); }, [&] { joiner.add(name, std::move(part)); });
    }
    joiner.finish();
    const bool has_optimizer = path_exists(folder / optimizer_part);
    checkpoint.notes.push_back(has_optimizer
                                   ? fmt::format("{} and {} are read as one checkpoint; DCP results are one folder",
                                                 model_part, optimizer_part)
                                   : fmt::format("only {} is read; there is no {}", model_part, optimizer_part));
}

}  // namespace tpx::formats
