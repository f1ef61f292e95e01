// SPDX-License-Identifier: Apache-2.0
#include "formats/deepspeed/universal.hpp"

#include "formats/deepspeed/states.hpp"
#include "formats/state/training_keys.hpp"
#include "lib/core/error.hpp"
#include "lib/core/path.hpp"

#include <algorithm>
#include <set>

namespace tpx::formats::deepspeed {
namespace {

using torch::Kind;
using torch::Value;
namespace fs = std::filesystem;

/// A file of the zero folder: the parameter to which it belongs, and the state that it contains.
struct StateFile {
    std::string parameter;
    std::string state;
    fs::path path;
};

std::vector<StateFile> list_states(const fs::path& zero) {
    std::vector<StateFile> files;
    for (const fs::path& file : list_files_below(zero)) {
        if (file.extension() != ".pt" || !file.has_parent_path()) continue;
        files.push_back({file.parent_path().string(), file.stem().string(), zero / file});
    }
    return files;
}

class UniversalReader {
public:
    UniversalReader(WriterGrid& grid, const fs::path& zero, CatalogueBuilder& builder)
        : grid_{grid}, zero_{zero}, builder_{builder} {}

    void read() {
        std::size_t copies = 0;
        for (const StateFile& file : list_states(zero_)) {
            in_context([&] { return fmt::format("{}: tensor '{}'", file.path.string(), file.parameter); },
                       [&] { copies += !read_state(file); });
        }
        if (copies > 0)
            grid_.notes.push_back(fmt::format(
                "ignored files of zero/ that are copies of tensors in the model files, cast to f32 ({})", copies));
        if (grid_.zero3) read_steps();
        check_scalars();
        add_missing();
        note_round_robin();
    }

private:
    /// Returns false for the converter's copy of a tensor that is not a trainable parameter.
    bool read_state(const StateFile& file) {
        const auto found = grid_.parameters.find(file.parameter);
        if (found == grid_.parameters.end() || found->second.frozen) {
            if (file.state == "fp32" && builder_.has(file.parameter)) return false;
            throw failure("is not a trainable parameter of the model files");
        }
        if (file.state == "step") stepped_.insert(file.parameter);
        const torch::Archive archive = torch::Archive::open(file.path);
        Value value = archive.root();
        if (value.is(Kind::dict)) value = value.at("param");
        if (!value.is(Kind::object)) return true;  // a step that is a plain number
        const torch::StoredTensor stored = plain_tensor(archive, value);
        const std::string name = fmt::format("{}/{}", file.parameter, file.state);
        if (file.state == "step") {
            if (!stored.shape.empty()) throw failure("the step has shape {}", to_string(stored.shape));
            add_scalar(name, Role::step, file.path, stored);
            return true;
        }
        const Shape& shape = found->second.slicing.whole;
        if (stored.shape.empty() && !shape.empty()) {  // as in NAdam
            add_scalar(name, role_of_state(file.state), file.path, stored);
            scalars_.push_back(file);
            return true;
        }
        if (volume(stored.shape) != volume(shape) || !is_row_major(stored.shape, stored.strides) ||
            (stored.shape != shape && stored.shape.size() > 1))
            throw failure("has shape {}, but {} in param_shapes", to_string(stored.shape), to_string(shape));
        const std::uint32_t tensor = builder_.tensor(name, role_of_state(file.state), stored.dtype, shape);
        builder_.add_range(tensor, builder_.file(file.path), stored.offset, {0, volume(shape)}, shape,
                           unsliced(shape).blocks[0], 0);
        if (std::ranges::find(states_, file.state) == states_.end()) states_.push_back(file.state);
        return true;
    }

    void add_scalar(const std::string& name, Role role, const fs::path& path, const torch::StoredTensor& stored) {
        const std::uint32_t tensor = builder_.tensor(name, role, stored.dtype, {});
        builder_.add_slice(tensor, builder_.file(path), stored, unsliced({}).blocks[0], 0);
    }

    /// Reads the steps of a converted ZeRO 3 checkpoint: one for each sub-group, in rank 0's optimizer state.
    void read_steps() {
        const fs::path path = zero_ / "optimizer_state.pt";
        if (!path_exists(path)) return;
        const torch::Archive archive = torch::Archive::open(path);
        in_context([&] { return path.string(); }, [&] { add_steps(path, archive); });
    }

    void add_steps(const fs::path& path, const torch::Archive& archive) {
        const auto base = archive.root().find("optimizer_state_dict");
        if (!base) return;
        const std::vector<ParameterGroup>& groups = grid_.models[0].groups;
        for (const auto& [key, states] : base->at("state").entries()) {
            const auto step = states.find("step");
            const std::int64_t number = key.as_int();
            if (number < 0 || number >= std::ssize(groups)) throw failure("state of sub-group {}", number);
            if (!step || !step->is(Kind::object)) continue;
            const torch::StoredTensor stored = plain_tensor(archive, *step);
            if (!stored.shape.empty()) throw failure("the step has shape {}", to_string(stored.shape));
            for (const auto& [name, shape] : groups[number]) {
                const std::string full = name + "/step";
                if (!builder_.has(full)) add_scalar(full, Role::step, path, stored);
            }
        }
    }

    /// Throws Error if a state is a scalar for one parameter and has the shape of the parameter for another.
    void check_scalars() const {
        for (const StateFile& file : scalars_)
            if (std::ranges::find(states_, file.state) != states_.end())
                throw failure("{}: tensor '{}': has shape [], but {} in param_shapes", file.path.string(),
                              file.parameter, to_string(grid_.parameters.at(file.parameter).slicing.whole));
    }

    /// Adds the states and steps that other parameters have as tensors without data.
    void add_missing() {
        for (const auto& [name, parameter] : grid_.parameters) {
            const bool is_stepped = parameter.frozen || stepped_.empty() || stepped_.contains(name);
            if (!is_stepped && builder_.has(name + "/exp_avg") && !builder_.has(name + "/step"))
                builder_.tensor(name + "/step", Role::step, DType::f32, {});
            for (const std::string& state : states_) {
                const std::string full = fmt::format("{}/{}", name, state);
                if (!parameter.frozen && !builder_.has(full))
                    builder_.tensor(full, role_of_state(state), DType::f32, parameter.slicing.whole);
            }
        }
    }

    /// Adds a note if ds_to_universal may have assigned partitions to the wrong parameters, as it does with round-robin
    /// groups.
    void note_round_robin() {
        const ModelFile& model = grid_.models[0];
        const auto setting = model.zero_setting("round_robin_gradients");
        if (grid_.zero3 || grid_.dp < 2 || !setting || !setting->is(Kind::boolean) || !setting->as_bool()) return;
        const std::string version = model.version();
        grid_.notes.push_back(
            fmt::format("converted from round-robin partitions (DeepSpeed {}, round_robin_gradients): if "
                        "ds_to_universal did it, master weights and moments have the names of other parameters",
                        version.empty() ? "of unknown version" : version));
    }

    WriterGrid& grid_;
    fs::path zero_;
    CatalogueBuilder& builder_;
    std::vector<std::string> states_;
    std::vector<StateFile> scalars_;  // states other than steps that have no dimensions, unlike their parameters
    std::set<std::string> stepped_;   // parameters that have a file of their step
};

}  // namespace

void add_universal(WriterGrid& grid, const fs::path& folder, CatalogueBuilder& builder) {
    UniversalReader{grid, folder / "zero", builder}.read();
}

}  // namespace tpx::formats::deepspeed
