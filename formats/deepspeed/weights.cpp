// SPDX-License-Identifier: Apache-2.0
#include "formats/deepspeed/weights.hpp"

#include "formats/deepspeed/groups.hpp"
#include "formats/deepspeed/open_step_file.hpp"
#include "formats/deepspeed/optimizer.hpp"
#include "formats/deepspeed/stored_optimizer.hpp"
#include "lib/core/error.hpp"
#include "lib/core/name_list.hpp"

#include <algorithm>
#include <set>

namespace tpx::formats::deepspeed {
namespace {

using torch::Kind;
using torch::Value;
namespace fs = std::filesystem;

/// The tensors of a dict in a file, by name.
struct Named {
    fs::path path;
    std::vector<std::string> order;
    std::map<std::string, torch::StoredTensor> tensors;
};

Named read_tensors(const fs::path& path, const torch::Archive& archive, Value dict) {
    Named result{.path = path};
    in_context([&] { return path.string(); },
               [&] {
                   for (const auto& [key, value] : dict.entries()) {
                       // Extra state of modules (get_extra_state) is not a tensor.
                       if (!value.is(Kind::object)) continue;
                       const std::string name{key.as_string()};
                       in_context([&] { return fmt::format("tensor '{}'", name); },
                                  [&, &item = value] {
                                      if (!result.tensors.emplace(name, plain_tensor(archive, item)).second)
                                          throw failure("appears twice");
                                  });
                       result.order.push_back(name);
                   }
               });
    return result;
}

class WeightReader {
public:
    WeightReader(WriterGrid& grid, CatalogueBuilder& builder) : grid_{grid}, builder_{builder} {}

    void read() {
        for (int stage = 0; stage < grid_.pp; ++stage) {
            read_module(stage);
            if (grid_.zero3) read_frozen(stage);
        }
        read_layers();
        read_experts();
        add_excluded();
    }

private:
    void read_module(int stage) {
        std::vector<Named> slices;
        for (int t = 0; t < grid_.tp; ++t) {
            const ModelFile& model = grid_.model(stage, t);
            const auto module = model.root().find("module");
            if (!module || module->is_none()) {
                if (t > 0) throw failure("{}: has no module, but tensor rank 0 has one", model.path.string());
                return;
            }
            slices.push_back(read_tensors(model.path, model.archive, *module));
        }
        const ModelFile& first = grid_.model(stage, 0);
        const std::set<std::string_view> buffers{first.buffers.begin(), first.buffers.end()};
        for (const std::string& name : slices[0].order) {
            in_context([&] { return fmt::format("{}: tensor '{}'", first.path.string(), name); },
                       [&] {
                           if (grid_.zero3 && is_placeholder(name, slices[0].tensors.at(name), first, buffers)) return;
                           buffers.contains(name) ? add_whole(name, slices[0], stage) : add(name, name, slices, stage);
                       });
        }
    }

    /// Whether a tensor is the empty placeholder that a module stores under ZeRO 3 for each partitioned parameter.
    bool is_placeholder(const std::string& name, const torch::StoredTensor& tensor, const ModelFile& model,
                        const std::set<std::string_view>& buffers) const {
        if (tensor.shape != Shape{0} || buffers.contains(name)) return false;
        if (!grid_.parameters.contains(name) && !model.shared.contains(name))
            throw failure("is an empty placeholder, but not of a parameter");
        return true;
    }

    const Parameter* parameter(const std::string& name, int stage) const {
        const auto found = grid_.parameters.find(name);
        if (found != grid_.parameters.end()) return &found->second;
        const auto& shared = grid_.model(stage, 0).shared;
        const auto alias = shared.find(name);
        if (alias == shared.end()) return nullptr;
        const auto kept = grid_.parameters.find(alias->second);
        return kept == grid_.parameters.end() ? nullptr : &kept->second;
    }

    void add_whole(const std::string& name, const Named& from, int stage) {
        const torch::StoredTensor& stored = from.tensors.at(name);
        put(name, unsliced(stored.shape), 0, stored, from.path, grid_.rank(stage * grid_.tp, 0));
    }

    /// Adds tensor `name`, which all tensor ranks of a stage store as `key`.
    void add(const std::string& name, const std::string& key, const std::vector<Named>& slices, int stage) {
        const Parameter* known = parameter(name, stage);
        Slicing own;
        if (!known) {
            if (grid_.tp > 1)
                throw failure("is not a parameter of param_shapes, so how {} tensor-parallel ranks split it is unknown",
                              grid_.tp);
            own = unsliced(slices[0].tensors.at(key).shape);
        }
        const Slicing& slicing = known ? known->slicing : own;
        for (int t = 0; t < grid_.tp; ++t) {
            const auto stored = slices[t].tensors.find(key);
            if (stored == slices[t].tensors.end()) throw failure("tensor rank {} lacks it", t);
            if (known && stored->second.shape != known->locals[t])
                throw failure("has shape {}, but {} in param_shapes", to_string(stored->second.shape),
                              to_string(known->locals[t]));
            put(name, slicing, t, stored->second, slices[t].path, grid_.rank(stage * grid_.tp + t, 0));
        }
    }

    void put(const std::string& name, const Slicing& slicing, int t, const torch::StoredTensor& stored,
             const fs::path& path, int rank) {
        const std::uint32_t tensor = builder_.tensor(name, Role::weight, stored.dtype, slicing.whole);
        // Tensor ranks that have the whole tensor are replicas, which verify compares.
        const auto& blocks = slicing.blocks[slicing.replicated ? 0 : static_cast<std::size_t>(t)];
        builder_.add_slice(tensor, builder_.file(path), stored, blocks, rank);
    }

    void read_frozen(int stage) {
        for (int t = 0; t < grid_.tp; ++t) {
            const ModelFile& first = grid_.model(stage, t);
            if (first.frozen.empty()) continue;
            const int mp = stage * grid_.tp + t;
            for (int d = 0; d < grid_.dp; ++d) {
                const fs::path& path = grid_.files.models.at({mp, d});
                const torch::Archive other = open_step_file(path, grid_.notes);
                in_context([&] { return path.string(); }, [&] { add_fragments(first, other, path, mp, d); });
            }
        }
    }

    void add_fragments(const ModelFile& first, const torch::Archive& archive, const fs::path& path, int mp, int d) {
        const Value fragments = archive.root().at("frozen_param_fragments");
        if (fragments.is_none()) return;
        for (const auto& [name, shape] : first.frozen) {
            in_context([&, &key = name] { return fmt::format("tensor '{}'", key); },
                       [&, &key = name, &size = shape] {
                           const torch::StoredTensor stored = plain_tensor(archive, fragments.at(key));
                           const Index part = part_of_parameter(volume(size), grid_.dp);
                           if (stored.shape != Shape{part})
                               throw failure("a frozen fragment of shape {} where {} elements are expected",
                                             to_string(stored.shape), part);
                           add_fragment(key, stored, path, mp, d, part);
                       });
        }
    }

    void add_fragment(const std::string& name, const torch::StoredTensor& stored, const fs::path& path, int mp, int d,
                      Index part) {
        const Parameter& parameter = grid_.parameters.find(name)->second;
        const Shape& local = parameter.locals[mp % grid_.tp];
        const std::uint32_t tensor = builder_.tensor(name, Role::weight, stored.dtype, parameter.slicing.whole);
        const Interval here = intersect({d * part, (d + 1) * part}, {0, volume(local)});
        if (here.empty()) return;
        builder_.add_range(tensor, builder_.file(path), stored.offset, here, local,
                           parameter.slicing.blocks[mp % grid_.tp], grid_.rank(mp, d));
    }

    // Pipelines store one file for each layer.

    void read_layers() {
        std::set<int> layers;
        for (const auto& [key, path] : grid_.files.layers) layers.insert(key.first);
        NameList absent;
        for (const int layer : layers) {
            for (int t = 0; t < grid_.tp; ++t)
                if (!grid_.files.layers.contains({layer, t}))
                    absent.add(fmt::format("layer {} and tensor rank {}", layer, t));
        }
        if (absent.count() > 0)
            throw failure("{}: {}", grid_.models[0].path.parent_path().string(), missing_files_text("layer", absent));
        for (const int layer : layers) {
            std::vector<Named> slices;
            for (int t = 0; t < grid_.tp; ++t) {
                const auto path = grid_.files.layers.find({layer, t});
                const torch::Archive archive = open_step_file(path->second, grid_.notes);
                slices.push_back(read_tensors(path->second, archive, archive.root()));
            }
            for (const std::string& key : slices[0].order)
                in_context([&] { return fmt::format("{}: tensor '{}'", slices[0].path.string(), key); },
                           [&] { add_layer_tensor(layer, key, slices); });
        }
    }

    void add_layer_tensor(int layer, const std::string& key, const std::vector<Named>& slices) {
        std::string name = fmt::format("{}.{}", layer, key);
        if (!grid_.parameters.contains(name)) {
            const std::string tied = tied_name(key);
            if (!tied.empty() && builder_.has(tied)) return;  // a copy; the first tied layer is used
            if (!tied.empty()) name = tied;
        }
        const auto found = grid_.parameters.find(name);
        add(name, key, slices, found == grid_.parameters.end() ? 0 : found->second.stage);
    }

    /// The parameter of a tied layer's tensor `key`; "" if there is none.
    std::string tied_name(const std::string& key) const {
        std::string found;
        const std::string ending = "." + key;
        for (const auto& [name, parameter] : grid_.parameters) {
            if (!name.starts_with("tied_modules.") || !name.ends_with(ending)) continue;
            if (name.find('.', 13) + ending.size() != name.size()) continue;
            if (!found.empty()) throw failure("may be '{}' or '{}'", found, name);
            found = name;
        }
        return found;
    }

    // Mixtures of experts store one file for each expert.

    void read_experts() {
        for (const auto& [key, path] : grid_.files.experts) {
            if (key.second > 0) continue;
            std::vector<Named> slices;
            for (int t = 0; t < grid_.tp; ++t) {
                const auto file = grid_.files.experts.find({key.first, t});
                if (file == grid_.files.experts.end())
                    throw failure("{}: the file of tensor rank {} for the same expert is missing", path.string(), t);
                const torch::Archive archive = open_step_file(file->second, grid_.notes);
                slices.push_back(read_tensors(file->second, archive, archive.root()));
            }
            for (const std::string& name : slices[0].order)
                in_context([&] { return fmt::format("{}: tensor '{}'", slices[0].path.string(), name); },
                           [&] { add(name, name, slices, 0); });
        }
    }

    /// Adds, as holes, frozen parameters that exclude_frozen_parameters omitted.
    void add_excluded() {
        for (const auto& [name, parameter] : grid_.parameters)
            if (parameter.frozen && !builder_.has(name))
                builder_.tensor(name, Role::weight, training_dtype(grid_.models[0]), parameter.slicing.whole);
    }

    WriterGrid& grid_;
    CatalogueBuilder& builder_;
};

}  // namespace

void add_weights(WriterGrid& grid, CatalogueBuilder& builder) { WeightReader{grid, builder}.read(); }

}  // namespace tpx::formats::deepspeed
