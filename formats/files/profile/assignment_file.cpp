// SPDX-License-Identifier: Apache-2.0
#include "formats/files/profile/assignment_file.hpp"

#include "formats/files/toml_text.hpp"
#include "lib/core/counted.hpp"
#include "lib/core/error.hpp"

#include <algorithm>
#include <cstdint>

namespace tpx::formats {
namespace {

constexpr std::int64_t most_batch = 1 << 24, most_devices = 1 << 20;

const toml::node& required(const toml::table& table, std::string_view key, const std::string& file) {
    const toml::node* node = table.get(key);
    if (node == nullptr) throw toml_error(table, file, "{} is missing", key);
    return *node;
}

AssignedDevices devices_of(const toml::node& node, const std::string& file) {
    const toml::table* table = node.as_table();
    if (table == nullptr) throw toml_error(node, file, "gpus: a table was expected");
    AssignedDevices devices{
        .type = text_of(required(*table, "type", file), file),
        .count = integer_of(required(*table, "count", file), file, 1, most_devices),
        .node_batch = integer_of(required(*table, "virtual_node_batch", file), file, 1, most_batch)};
    const std::int64_t nodes = integer_of(required(*table, "virtual_nodes", file), file, 1, most_batch);
    if (nodes * devices.node_batch > most_batch)
        throw toml_error(node, file, "{} virtual nodes of {} samples are more than {}", nodes, devices.node_batch,
                         most_batch);
    devices.local_batch = static_cast<int>(nodes * devices.node_batch);
    return devices;
}

}  // namespace

BatchAssignment parse_assignment(std::string_view text, const std::string& name) {
    const toml::table table = parse_toml_text(text, name);
    BatchAssignment assignment{.file = name, .batch = integer_of(required(table, "batch", name), name, 1, most_batch)};
    const toml::array* list = required(table, "gpus", name).as_array();
    if (list == nullptr) throw toml_error(*table.get("gpus"), name, "gpus: a list of tables was expected");
    std::int64_t sum = 0;
    for (const toml::node& node : *list) {
        AssignedDevices devices = devices_of(node, name);
        if (std::ranges::find(assignment.devices, devices.type, &AssignedDevices::type) != assignment.devices.end())
            throw toml_error(node, name, "type '{}' is given twice", devices.type);
        sum += std::int64_t{devices.count} * devices.local_batch;
        assignment.devices.push_back(std::move(devices));
    }
    if (sum != assignment.batch)
        throw toml_error(*table.get("batch"), name, "the devices have {} together, not {}",
                         counted(std::uint64_t(sum), "sample"), assignment.batch);
    return assignment;
}

}  // namespace tpx::formats
