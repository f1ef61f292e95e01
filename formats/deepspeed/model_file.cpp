// SPDX-License-Identifier: Apache-2.0
#include "formats/deepspeed/model_file.hpp"

#include "formats/deepspeed/catalogue_builder.hpp"
#include "formats/deepspeed/open_step_file.hpp"
#include "lib/core/error.hpp"

#include <set>

namespace tpx::formats::deepspeed {
namespace {

using torch::Kind;
using torch::Value;

ParameterGroup read_group(Value shapes, std::set<std::string>& names) {
    ParameterGroup group;
    for (const auto& [key, value] : shapes.entries()) {
        const std::string name{key.as_string()};
        in_context([&] { return fmt::format("tensor '{}'", name); },
                   [&, &size = value] {
                       if (name.empty() || !names.insert(name).second) throw failure("appears twice in param_shapes");
                       group.emplace_back(name, shape_of(size));
                   });
    }
    return group;
}

/// Reads param_shapes, which is one dict for all groups in older versions.
std::vector<ParameterGroup> read_groups(Value shapes) {
    std::vector<ParameterGroup> groups;
    std::set<std::string> names;
    if (shapes.is_none()) return groups;
    if (!shapes.is(Kind::list)) return {read_group(shapes, names)};
    for (const Value item : shapes.items()) groups.push_back(read_group(item, names));
    return groups;
}

void read_names(ModelFile& file) {
    const Value root = file.root();
    if (!root.is(Kind::dict)) throw failure("expected a dict, found {}", root.describe());
    if (const auto shapes = root.find("param_shapes")) file.groups = read_groups(*shapes);
    if (const auto frozen = root.find("frozen_param_shapes"); frozen && !frozen->is_none()) {
        std::set<std::string> names;
        file.frozen = read_group(*frozen, names);
    }
    if (const auto shared = root.find("shared_params"); shared && !shared->is_none()) {
        for (const auto& [key, value] : shared->entries())
            file.shared.emplace(key.as_string(), std::string{value.as_string()});
    }
    if (const auto buffers = root.find("buffer_names"); buffers && !buffers->is_none()) {
        for (const Value name : buffers->items()) file.buffers.emplace_back(name.as_string());
    }
}

}  // namespace

std::optional<std::int64_t> ModelFile::integer(std::string_view key) const {
    const auto found = root().find(key);
    return found && found->is(Kind::integer) ? std::optional{found->as_int()} : std::nullopt;
}

std::optional<Value> ModelFile::zero_setting(std::string_view key) const {
    const auto config = root().find("ds_config");
    if (!config || !config->is(Kind::dict)) return std::nullopt;
    const auto zero = config->find("zero_optimization");
    return zero && zero->is(Kind::dict) ? zero->find(key) : std::nullopt;
}

std::string ModelFile::version() const {
    const auto found = root().find("ds_version");
    return found && found->is(Kind::string) ? std::string{found->as_string()} : "";
}

ModelFile read_model_file(const std::filesystem::path& path, std::vector<std::string>& notes) {
    ModelFile file{.path = path, .archive = open_step_file(path, notes)};
    in_context([&] { return path.string(); }, [&] { read_names(file); });
    return file;
}

std::vector<Index> numels(const ParameterGroup& group) {
    std::vector<Index> counts;
    for (const auto& [name, shape] : group) counts.push_back(volume(shape));
    return counts;
}

}  // namespace tpx::formats::deepspeed
