// SPDX-License-Identifier: Apache-2.0
#include "formats/encodings/hdf5/skeleton.hpp"
#include "formats/encodings/hdf5/tree.hpp"
#include "formats/hdf5/driver.hpp"
#include "formats/hdf5/hdf5.hpp"
#include "formats/hdf5/own_datasets.hpp"
#include "formats/state/roles.hpp"
#include "lib/core/error.hpp"
#include "lib/core/file.hpp"

#include <algorithm>
#include <array>
#include <map>
#include <set>

namespace tpx::formats {
namespace hdf5 {
namespace {

constexpr std::array<std::string_view, 9> marks{schema_key, rank_key, ranks_key, dtype_key,  shape_key,
                                                offset_key, name_key, role_key,  "iteration"};

bool is_mark(const AttributeValue& attribute) { return std::ranges::find(marks, attribute.name) != marks.end(); }

/// Chooses a path for each tensor: its name with dots replaced by slashes, if possible; PARAMETER/STATE becomes
/// STATE/PARAMETER.
class Paths {
public:
    std::string path_for(const std::string& name, bool is_state) {
        std::string path = slashed(name);
        if (is_state && name.find('/') != name.npos) {
            const std::string parameter{parameter_of(name)};
            path = slashed(name.substr(parameter.size() + 1)) + "/" + slashed(parameter);
        }
        if (!is_free(path)) {
            path = name;
            std::ranges::replace(path, '/', '_');
            if (path.empty()) path.push_back('_');
            while (!is_free(path)) path += '~';
        }
        take(path);
        return path;
    }

private:
    static std::string slashed(const std::string& name) {
        std::string path;
        for (char c : name) path += c == '/' ? '_' : c == '.' ? '/' : c;
        // No part may be empty.
        std::string whole;
        for (std::size_t k = 0; k < path.size(); ++k) {
            const bool empty_part = path[k] == '/' && (whole.empty() || whole.back() == '/');
            whole += empty_part ? "_/" : std::string(1, path[k]);
        }
        if (whole.empty() || whole.back() == '/') whole += '_';
        return whole;
    }

    static std::string above(const std::string& path) {
        const auto slash = path.rfind('/');
        return slash == path.npos ? "" : path.substr(0, slash);
    }

    bool is_free(const std::string& path) const {
        if (datasets_.contains(path) || groups_.contains(path)) return false;
        for (std::string group = above(path); !group.empty(); group = above(group)) {
            if (datasets_.contains(group)) return false;
        }
        return true;
    }

    void take(const std::string& path) {
        datasets_.insert(path);
        for (std::string group = above(path); !group.empty(); group = above(group)) groups_.insert(group);
    }

    std::set<std::string> datasets_;
    std::set<std::string> groups_;
};

class Drafter {
public:
    explicit Drafter(const Content& content) : content_{content} {
        draft_.tensors = content.tensors;
        draft_.pieces = content.pieces;
        const Checkpoint& source = *content.source;
        // State that is not named PARAMETER/STATE shows its role by its name.
        for (std::size_t t = 0; t < source.roles.size() && source.parameters.empty(); ++t)
            roles_[source.catalogue.tensors[t].name] = source.roles[t];
        if (source.format == &hdf5_driver) tree_ = source.tree.get();
        for (const Tensor& tensor : content.tensors)
            paths_.push_back(finder_.path_for(tensor.name, role_of(tensor.name) != Role::weight));
    }

    Draft draft() {
        const int ranks = std::max(content_.ranks, 1);
        std::vector<std::vector<std::uint32_t>> pieces(static_cast<std::size_t>(ranks));
        for (std::uint32_t p = 0; p < content_.pieces.size(); ++p)
            pieces.at(static_cast<std::size_t>(std::max(content_.pieces[p].rank, 0))).push_back(p);
        for (int rank = 0; rank < ranks; ++rank) draft_rank(rank, ranks, pieces[static_cast<std::size_t>(rank)]);
        return std::move(draft_);
    }

private:
    Role role_of(const std::string& name) const {
        const auto found = roles_.find(name);
        return found == roles_.end() ? Role::weight : found->second;
    }

    void draft_rank(int rank, int ranks, const std::vector<std::uint32_t>& pieces) {
        Skeleton skeleton;
        add_root(skeleton, rank, ranks);
        std::vector<std::uint32_t> made;
        std::map<std::uint32_t, int> parts;
        for (std::uint32_t p : pieces) {
            const Piece& piece = content_.pieces[p];
            // Skip the empty part of a nonempty tensor.
            const bool is_nothing = volume(content_.tensors[piece.tensor].shape) == 0;
            if (empty(piece.box) && !is_nothing) continue;
            if (is_nothing && !empties_.insert(piece.tensor).second) continue;
            add_piece(skeleton, piece, parts[piece.tensor]++);
            made.push_back(p);
        }
        const auto file = static_cast<std::uint32_t>(draft_.files.size());
        Skeleton::Frame frame = skeleton.close(file);
        draft_.files.push_back({ranks == 1 ? "model.h5" : fmt::format("rank_{:05}.h5", rank), frame.size});
        std::ranges::move(frame.fixed, std::back_inserter(draft_.fixed));
        for (std::uint32_t p : pieces) {
            draft_.pieces[p].file = file;
            draft_.pieces[p].strides = row_major(sizes(draft_.pieces[p].box));
        }
        for (std::size_t k = 0; k < made.size(); ++k) draft_.pieces[made[k]].offset = frame.offsets[k];
    }

    void add_root(Skeleton& skeleton, int rank, int ranks) const {
        skeleton.attribute("", text_attribute(schema_key, schema));
        skeleton.attribute("", number_attribute(rank_key, rank));
        skeleton.attribute("", number_attribute(ranks_key, ranks));
        if (content_.source->iteration)
            skeleton.attribute("", number_attribute("iteration", *content_.source->iteration));
        if (tree_ == nullptr || rank > 0) return;
        const std::set<std::string> taken{paths_.begin(), paths_.end()};
        for (const GroupFacts& group : tree_->groups) {
            if (group.attributes.empty() || taken.contains(group.path)) continue;
            skeleton.group(group.path);
            for (const AttributeValue& attribute : group.attributes) {
                if (!is_mark(attribute)) skeleton.attribute(group.path, attribute);
            }
        }
    }

    void add_piece(Skeleton& skeleton, const Piece& piece, int number) const {
        const Tensor& tensor = content_.tensors[piece.tensor];
        const std::string path = paths_[piece.tensor] + (number == 0 ? "" : fmt::format("~{}", number));
        in_context([&] { return fmt::format("tensor '{}'", tensor.name); },
                   [&] {
                       skeleton.dataset(path, tensor.dtype, sizes(piece.box));
                       if (dotted(path) != tensor.name) skeleton.attribute(path, text_attribute(name_key, tensor.name));
                       if (role_of(tensor.name) != Role::weight)
                           skeleton.attribute(path, text_attribute(role_key, name(role_of(tensor.name))));
                       if (piece.box != whole(tensor.shape)) add_box(skeleton, path, tensor, piece.box);
                       if (tree_ != nullptr) keep_attributes(skeleton, path, tensor.name);
                   });
    }

    static void add_box(Skeleton& skeleton, const std::string& path, const Tensor& tensor, const Box& box) {
        Tuple<Index> first;
        for (const Interval side : box) first.push_back(side.begin);
        skeleton.attribute(path, list_attribute(shape_key, tensor.shape));
        skeleton.attribute(path, list_attribute(offset_key, first));
    }

    void keep_attributes(Skeleton& skeleton, const std::string& path, const std::string& name) const {
        const auto origin = tree_->datasets.find(name);
        if (origin == tree_->datasets.end()) return;
        for (const AttributeValue& attribute : origin->second.attributes) {
            if (!is_mark(attribute)) skeleton.attribute(path, attribute);
        }
    }

    const Content& content_;
    Draft draft_;
    Paths finder_;
    std::vector<std::string> paths_;  // by tensor
    std::map<std::string, Role> roles_;
    const Tree* tree_ = nullptr;
    std::set<std::uint32_t> empties_;  // tensors without elements that are already stored
};

}  // namespace
}  // namespace hdf5

Draft draft_hdf5(const Content& content) { return hdf5::Drafter{content}.draft(); }

}  // namespace tpx::formats
