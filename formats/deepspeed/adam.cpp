// SPDX-License-Identifier: Apache-2.0
#include "formats/deepspeed/adam.hpp"

#include "formats/deepspeed/deepspeed.hpp"
#include "formats/deepspeed/optimizer.hpp"
#include "formats/deepspeed/stored_optimizer.hpp"
#include "formats/deepspeed/writer_grid.hpp"
#include "lib/core/error.hpp"

#include <cmath>
#include <cstring>

namespace tpx::formats::deepspeed {
namespace {

using torch::Kind;

/// The number of steps of a group; unset if it is not recorded. FusedAdam records it among the settings.
std::optional<std::int64_t> step_of(const StoredGroup& group) {
    for (const Scalar& scalar : group.scalars) {
        if (scalar.name != "step") continue;
        if (const auto* number = std::get_if<std::int64_t>(&scalar.value)) return *number;
        if (const auto* number = std::get_if<double>(&scalar.value)) return std::llround(*number);
        const auto& element = std::get<OneElement>(scalar.value);
        float value = -1;
        if (element.dtype == DType::f32 && element.bytes.size() == sizeof value)
            std::memcpy(&value, element.bytes.data(), sizeof value);
        if (!(value >= 0 && value < 1e15F)) throw failure("invalid step: {} {}", name(element.dtype), value);
        return std::llround(value);
    }
    const auto step = group.settings.is(Kind::dict) ? group.settings.find("step") : std::nullopt;
    return step && step->is(Kind::integer) ? std::optional{step->as_int()} : std::nullopt;
}

class AdamReader {
public:
    explicit AdamReader(const WriterGrid& grid) : grid_{grid} {}

    /// Returns false if the group has no Adam settings.
    bool add(const StoredGroup& group) {
        if (!group.settings.is(Kind::dict)) return false;
        for (const char* key : {"lr", "betas", "eps"})  // Lion has no eps
            if (!group.settings.find(key)) return false;
        AdamSettings settings;
        for (const torch::Entry& entry : group.settings.entries())
            if (entry.key.is(Kind::string)) set(settings, entry.key.as_string(), entry.value, nullptr);
        if (const auto step = step_of(group)) {
            if (steps_ && *steps_ != *step) throw failure("parameter groups are at steps {} and {}", *steps_, *step);
            steps_ = step;
        }
        ParameterGroup names;
        for (const std::string& name : group.names) names.emplace_back(name, Shape{});
        for (const std::string& name : group.names)
            for (int rank = 0; rank < group.expert_ranks; ++rank)
                adam_.own[global_expert_name(name, rank, local_experts(names, name)) + "/exp_avg"] = settings;
        return true;
    }

    Adam finish() {
        adam_.step = steps_.value_or(grid_.models[0].integer("global_steps").value_or(0));
        return std::move(adam_);
    }

private:
    const WriterGrid& grid_;
    Adam adam_;
    std::optional<std::int64_t> steps_;
};

}  // namespace

std::optional<Adam> adam_of_step(const std::filesystem::path& path) {
    const DeepSpeedStep found = find_deepspeed(path);
    const WriterGrid grid = read_writer_grid(found.step);
    if (!found.universal && grid.files.optimizers.empty()) return std::nullopt;
    AdamReader reader{grid};
    for (int stage = 0; stage < grid.pp; ++stage) {
        const StoredOptimizer origin = read_stored_optimizer(grid, stage, found.universal);
        for (const StoredGroup& group : origin.groups) {
            const bool added = in_context([&] { return origin.path.string(); }, [&] { return reader.add(group); });
            if (!added) return std::nullopt;
        }
    }
    return reader.finish();
}

}  // namespace tpx::formats::deepspeed
