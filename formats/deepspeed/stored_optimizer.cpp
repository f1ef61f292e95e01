// SPDX-License-Identifier: Apache-2.0
#include "formats/deepspeed/stored_optimizer.hpp"

#include "formats/deepspeed/catalogue_builder.hpp"
#include "formats/deepspeed/regroup.hpp"
#include "lib/core/error.hpp"
#include "lib/core/path.hpp"

#include <algorithm>

namespace tpx::formats::deepspeed {
namespace {

using torch::Kind;
using torch::Value;
namespace fs = std::filesystem;

bool is_set(const ModelFile& model, std::string_view key) {
    const auto setting = model.zero_setting(key);
    return setting && setting->is(Kind::boolean) && setting->as_bool();
}

std::vector<std::string> names_of(const ParameterGroup& group) {
    std::vector<std::string> names;
    for (const auto& [name, shape] : group) names.push_back(name);
    return names;
}

/// The scalars among the states of a group; all other states are per element.
std::vector<Scalar> scalars_of(const torch::Archive& archive, Value states) {
    std::vector<Scalar> scalars;
    for (const auto& [key, value] : states.entries())
        if (auto scalar = scalar_of(key.as_string(), archive, value)) scalars.push_back(std::move(*scalar));
    return scalars;
}

class OriginReader {
public:
    OriginReader(const WriterGrid& grid, int stage, bool universal)
        : grid_{grid}, model_{grid.model(stage, 0)}, stage_{stage}, universal_{universal} {}

    StoredOptimizer read() {
        universal_ ? open_universal() : open_file();
        return in_context([&] { return out_.path.string(); },
                          [&] {
                              read_kind();
                              grid_.zero3 ? read_subgroups() : read_groups();
                              return std::move(out_);
                          });
    }

private:
    void open_universal() {
        out_.path = model_.path.parent_path() / "zero/optimizer_state.pt";
        out_.archive = torch::Archive::open(out_.path);
        out_.tree = out_.archive.root();
    }

    void open_file() {
        const auto found = grid_.files.optimizers.find({stage_ * grid_.tp, 0});
        if (found == grid_.files.optimizers.end())
            throw failure("{}: has no optimizer file of data rank 0", model_.path.parent_path().string());
        out_.path = found->second;
        out_.archive = torch::Archive::open(out_.path);
        out_.root = out_.archive.root();
        out_.tree = out_.root.at("optimizer_state_dict");
    }

    void read_kind() {
        out_.staged = out_.tree.find("zero_stage").has_value();
        out_.aligned = is_set(model_, "parameter_alignment") && out_.tree.find("param_alignment_paddings").has_value();
        out_.round_robin = is_set(model_, "round_robin_gradients");
        const auto base = out_.tree.find("base_optimizer_state");
        out_.elastic = base && base->is(Kind::list);
    }

    Value settings(Value groups, std::size_t g) const {
        if (g >= groups.items().size()) throw failure("param_groups has only {} groups", groups.items().size());
        return groups.items()[g];
    }

    std::optional<Value> param_groups() const {
        if (const auto own = out_.tree.find("param_groups")) return own;
        const auto base = out_.tree.find(grid_.zero3 ? "optimizer_state_dict" : "base_optimizer_state");
        return base && base->is(Kind::dict) ? base->find("param_groups") : std::nullopt;
    }

    // ZeRO 1 and 2

    void read_groups() {
        const auto groups = param_groups();
        for (std::size_t g = 0; g < model_.groups.size(); ++g) {
            StoredGroup group{.names = names_of(model_.groups[g])};
            const int partitions = universal_ ? grid_.dp : partition_count(g);
            group.expert_ranks = grid_.dp / partitions;
            if (out_.round_robin) group.names = names_of(in_module_order(g, partitions));
            if (groups) group.settings = settings(*groups, g);
            group.scalars = universal_ ? steps(group) : stored_scalars(g);
            out_.groups.push_back(std::move(group));
        }
    }

    int partition_count(std::size_t g) const {
        const Value count = out_.tree.at("partition_count");
        const std::int64_t n = count.is(Kind::integer) ? count.as_int() : settings(count, g).as_int();
        if (n < 1 || n > grid_.dp || grid_.dp % n != 0) throw failure("{} partitions over {} data ranks", n, grid_.dp);
        return static_cast<int>(n);
    }

    ParameterGroup in_module_order(std::size_t g, int partitions) const {
        if (out_.aligned) throw failure("round-robin partitions with alignment gaps cannot be resharded");
        std::vector<std::string> names;
        for (const torch::Entry& entry : model_.root().at("module").entries())
            names.emplace_back(entry.key.as_string());
        return reorder_round_robin(model_.groups[g], names, partitions, 1);
    }

    std::vector<Scalar> stored_scalars(std::size_t g) const {
        const Value base = out_.tree.at("base_optimizer_state");
        if (base.is_none()) return {};
        if (base.is(Kind::list))
            return g < base.items().size() ? scalars_of(out_.archive, base.items()[g]) : std::vector<Scalar>{};
        for (const auto& [key, states] : base.at("state").entries())
            if (key.as_int() == static_cast<std::int64_t>(g)) return scalars_of(out_.archive, states);
        return {};
    }

    /// The step of a group in a universal checkpoint of ZeRO 1 or 2, which stores it for each parameter.
    std::vector<Scalar> steps(const StoredGroup& group) const {
        for (const std::string& name : group.names) {
            const fs::path path = out_.path.parent_path() / name / "step.pt";
            if (!path_exists(path)) continue;
            const torch::Archive archive = torch::Archive::open(path);
            Value value = archive.root();
            if (value.is(Kind::dict)) value = value.at("param");
            if (auto scalar = scalar_of("step", archive, value)) return {std::move(*scalar)};
            throw failure("{}: contains {}, which is not a step", path.string(), value.describe());
        }
        return {};
    }

    // ZeRO 3

    /// Joins the sub-groups that belong to one group according to param_groups.
    void read_subgroups() {
        const Value base = out_.tree.at("optimizer_state_dict");
        std::size_t next = 0;
        for (const Value settings : base.at("param_groups").items()) {
            StoredGroup group{.settings = settings};
            const auto numbers = settings.at("params").items();
            for (std::size_t k = 0; k < numbers.size(); ++k, ++next) {
                if (numbers[k].as_int() != static_cast<std::int64_t>(next) || next >= model_.groups.size())
                    throw failure("param_groups lists sub-groups out of order, or more than {}", model_.groups.size());
                if (k == 0) group.scalars = subgroup_scalars(base, next);
                const std::vector<std::string> names = names_of(model_.groups[next]);
                group.names.insert(group.names.end(), names.begin(), names.end());
            }
            out_.groups.push_back(std::move(group));
        }
        if (next != model_.groups.size())
            throw failure("param_groups lists {} of {} sub-groups", next, model_.groups.size());
    }

    std::vector<Scalar> subgroup_scalars(Value base, std::size_t number) const {
        for (const auto& [key, states] : base.at("state").entries())
            if (key.as_int() == static_cast<std::int64_t>(number)) return scalars_of(out_.archive, states);
        return {};
    }

    const WriterGrid& grid_;
    const ModelFile& model_;
    int stage_;
    bool universal_;
    StoredOptimizer out_;
};

}  // namespace

std::optional<Scalar> scalar_of(std::string_view name, const torch::Archive& archive, Value value) {
    if (value.is(Kind::integer)) return Scalar{std::string{name}, value.as_int()};
    if (value.is(Kind::real)) return Scalar{std::string{name}, value.as_real()};
    if (!value.is(Kind::object)) return std::nullopt;
    const torch::StoredTensor tensor = plain_tensor(archive, value);
    if (!tensor.shape.empty()) return std::nullopt;
    return Scalar{std::string{name}, OneElement{tensor.dtype, archive.elements(tensor)}};
}

StoredOptimizer read_stored_optimizer(const WriterGrid& grid, int stage, bool universal) {
    return OriginReader{grid, stage, universal}.read();
}

DType training_dtype(const ModelFile& model) {
    const auto config = model.root().find("ds_config");
    const auto enabled = [&](std::string_view key) {
        const auto section = config && config->is(Kind::dict) ? config->find(key) : std::nullopt;
        const auto value = section && section->is(Kind::dict) ? section->find("enabled") : std::nullopt;
        return value && (value->is(Kind::boolean) ? value->as_bool() : value->is(Kind::string));
    };
    if (enabled("bf16") || enabled("bfloat16")) return DType::bf16;
    return enabled("fp16") ? DType::f16 : DType::f32;
}

}  // namespace tpx::formats::deepspeed
