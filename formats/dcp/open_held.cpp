// SPDX-License-Identifier: Apache-2.0
#include "formats/companions.hpp"
#include "formats/dcp/driver.hpp"
#include "formats/dcp/held.hpp"
#include "formats/dcp/training_roles.hpp"
#include "formats/encodings/held/document.hpp"
#include "formats/encodings/torch/keep_alive.hpp"
#include "formats/encodings/torch/value.hpp"
#include "formats/settings/config_file.hpp"
#include "formats/state/common_objects.hpp"
#include "lib/core/coverage.hpp"
#include "lib/core/error.hpp"
#include "lib/core/file.hpp"
#include "lib/core/path.hpp"

#include <fcntl.h>

#include <algorithm>
#include <cstring>
#include <map>
#include <numeric>
#include <set>
#include <tuple>
#include <unordered_map>

namespace tpx::formats {
namespace held {
namespace {

namespace fs = std::filesystem;

/// Joins the documents of all ranks into one checkpoint.
class Joiner {
public:
    explicit Joiner(const fs::path& manifest) { checkpoint_.catalogue.directory = manifest.parent_path(); }

    void add(const Manifest::Part& part) {
        const fs::path path = directory() / part.document, segment = directory() / part.segment;
        in_context([&] { return path.string(); },
                   [&] {
                       const Document document = parse_document(read_file(path));
                       if (document.gpu) throw failure("the tensors are in GPU memory");
                       check_same_save(document);
                       const std::uint64_t size = size_of_file(segment);
                       if (size < document.size)
                           throw failure("segment is truncated (expected {} bytes, found {})", document.size, size);
                       add(document, part.segment);
                   });
    }

    Checkpoint join() {
        sort_pieces();
        in_context([&] { return directory().string(); }, [&] { find_holes(checkpoint_.catalogue); });
        if (!first_) throw failure("{}: no rank is held", directory().string());
        checkpoint_.format = &dcp_driver;
        checkpoint_.variant = "in memory";
        checkpoint_.iteration = first_->iteration;
        if (!first_->layout.empty()) checkpoint_.layout = parse_layout(first_->layout);
        paths_.set_root(paths_.dict(entries_));
        checkpoint_.planner_data = keep_alive(std::move(paths_));
        note_missing_ranks();
        return std::move(checkpoint_);
    }

private:
    const fs::path& directory() const { return checkpoint_.catalogue.directory; }

    void check_same_save(const Document& document) {
        if (!first_) first_ = document;
        if (!ranks_.insert(document.rank).second) throw failure("rank {}: appears twice", document.rank);
        const auto differ = [&](const char* what, const auto& a, const auto& b) {
            return failure("rank {} holds {} {}, but rank {} holds {} {}; export again on all ranks", document.rank,
                           what, a, first_->rank, what, b);
        };
        const auto number = [](const Document& one) { return one.iteration ? std::to_string(*one.iteration) : "none"; };
        if (document.iteration != first_->iteration) throw differ("iteration", number(document), number(*first_));
        if (document.job != first_->job) throw differ("job", "'" + document.job + "'", "'" + first_->job + "'");
        if (document.ranks != first_->ranks)
            throw failure("rank {} belongs to a job of {} ranks, rank {} to one of {}; export again on all ranks",
                          document.rank, document.ranks, first_->rank, first_->ranks);
        if (document.layout != first_->layout)
            throw differ("layout", "'" + document.layout + "'", "'" + first_->layout + "'");
    }

    void add(const Document& document, const std::string& segment) {
        const auto file = static_cast<std::uint32_t>(checkpoint_.catalogue.files.size());
        checkpoint_.catalogue.files.push_back({segment, document.size});
        const std::string crcs = read_crcs(document, segment);
        for (std::size_t k = 0; k < document.tensors.size(); ++k) {
            const HeldTensor& tensor = document.tensors[k];
            const std::uint32_t number = number_of(tensor);
            if (empty(tensor.box)) continue;
            checkpoint_.catalogue.pieces.push_back({.tensor = number,
                                                    .file = file,
                                                    .offset = tensor.offset,
                                                    .box = tensor.box,
                                                    .strides = row_major(sizes(tensor.box)),
                                                    .rank = document.rank});
            std::optional<std::uint32_t> crc;
            if (!crcs.empty()) std::memcpy(&crc.emplace(), crcs.data() + 4 * k, 4);
            checkpoint_.crcs.push_back(crc);
        }
        for (const HeldObject& object : document.objects) {
            if (!objects_.insert(object.name).second) continue;  // the lowest rank's value is used for all
            checkpoint_.catalogue.objects.push_back({object.name, file, object.offset, object.length});
            add_path(object.name, object.path);
        }
    }

    std::string read_crcs(const Document& document, const std::string& segment) const {
        if (!document.crcs) return {};
        std::string bytes(4 * document.tensors.size(), '\0');
        const fs::path path = directory() / segment;
        read_at(open_file(path, O_RDONLY), *document.crcs, std::as_writable_bytes(std::span{bytes}), path);
        return bytes;
    }

    std::uint32_t number_of(const HeldTensor& tensor) {
        std::vector<Tensor>& tensors = checkpoint_.catalogue.tensors;
        const auto [known, fresh] = numbers_.try_emplace(tensor.name, static_cast<std::uint32_t>(tensors.size()));
        if (fresh) {
            tensors.push_back({tensor.name, tensor.dtype, tensor.shape});
            add_path(tensor.name, tensor.path);
        } else if (tensors[known->second].dtype != tensor.dtype || tensors[known->second].shape != tensor.shape) {
            throw failure("tensor '{}': is {} {}, but another rank has {} {}", tensor.name, name(tensor.dtype),
                          to_string(tensor.shape), name(tensors[known->second].dtype),
                          to_string(tensors[known->second].shape));
        }
        return known->second;
    }

    void add_path(const std::string& name, const KeyPath& path) {
        std::vector<torch::Value> keys;
        for (const auto& key : path)
            keys.push_back(std::holds_alternative<std::int64_t>(key) ? paths_.integer(std::get<std::int64_t>(key))
                                                                     : paths_.string(std::get<std::string>(key)));
        entries_.push_back({paths_.string(name), paths_.tuple(keys)});
    }

    void sort_pieces() {
        Catalogue& catalogue = checkpoint_.catalogue;
        std::vector<std::uint32_t> order(catalogue.pieces.size());
        std::iota(order.begin(), order.end(), 0u);
        std::ranges::stable_sort(order, {}, [&](std::uint32_t k) {
            const Piece& piece = catalogue.pieces[k];
            return std::tie(piece.tensor, piece.box, piece.rank);
        });
        std::vector<Piece> pieces;
        std::vector<std::optional<std::uint32_t>> crcs;
        for (const std::uint32_t k : order) {
            pieces.push_back(catalogue.pieces[k]);
            crcs.push_back(checkpoint_.crcs[k]);
        }
        catalogue.pieces = std::move(pieces);
        checkpoint_.crcs = std::move(crcs);
    }

    void note_missing_ranks() {
        const auto missing = static_cast<std::size_t>(first_->ranks) - ranks_.size();
        if (missing > 0)
            checkpoint_.notes.push_back(
                fmt::format("the state of {} of {} ranks is not held on this host", missing, first_->ranks));
    }

    Checkpoint checkpoint_;
    std::optional<Document> first_;
    std::set<int> ranks_;
    std::unordered_map<std::string, std::uint32_t> numbers_;
    std::set<std::string> objects_;
    torch::Document paths_;
    std::vector<torch::Entry> entries_;
};

}  // namespace
}  // namespace held

namespace {

held::Manifest read_manifest(const std::filesystem::path& path) {
    const std::string text = read_file(path, max_config_bytes);
    return in_context([&] { return path.string(); }, [&] { return held::parse_manifest(text); });
}

Checkpoint open_parts(const std::filesystem::path& path, const held::Manifest& manifest) {
    held::Joiner joiner{path};
    for (const held::Manifest::Part& part : manifest.parts) joiner.add(part);
    Checkpoint checkpoint = joiner.join();
    checkpoint.save_id = manifest.save;
    if (!manifest.config.empty()) {
        checkpoint.config_json = read_file(path.parent_path() / manifest.config, max_config_bytes);
        checkpoint.config = parse_config_json(checkpoint.config_json);
    }
    megatron::read_args(checkpoint);
    assign_training_roles(checkpoint);
    return checkpoint;
}

}  // namespace

Checkpoint open_held(const std::filesystem::path& path) { return open_parts(path, read_manifest(path)); }

Checkpoint open_held_by_hosts(const std::filesystem::path& folder) {
    held::Manifest all;
    std::map<std::string, std::string> saves;  // from saves to a manifest with the save
    for (const std::string& name : list_directory(folder)) {
        if (!held::is_manifest_of_host(name)) continue;
        const held::Manifest own = read_manifest(folder / name);
        bool adds = false;
        for (const held::Manifest::Part& part : own.parts) {
            if (std::ranges::find(all.parts, part.document, &held::Manifest::Part::document) != all.parts.end())
                continue;
            all.parts.push_back(part);
            adds = true;
        }
        if (adds) saves.emplace(own.save.empty() ? name : own.save, name);
        if (all.config.empty()) all.config = own.config;
    }
    std::ranges::sort(all.parts, {}, &held::Manifest::Part::document);  // so that the lowest rank's objects are used
    if (saves.size() == 1 && saves.begin()->first != saves.begin()->second) all.save = saves.begin()->first;
    Checkpoint checkpoint = open_parts(folder / "manifest", all);
    if (saves.size() > 1 && !checkpoint.iteration)
        throw failure(
            "{}: '{}' and '{}' record neither the same save nor an iteration, so they may be parts of "
            "different checkpoints",
            folder.string(), saves.begin()->second, std::next(saves.begin())->second);
    return checkpoint;
}

bool is_held_by_hosts(const std::filesystem::path& folder) {
    return std::ranges::any_of(list_directory(folder), held::is_manifest_of_host);
}

}  // namespace tpx::formats
