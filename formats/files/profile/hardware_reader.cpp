// SPDX-License-Identifier: Apache-2.0
#include "formats/files/plan/hosts_file.hpp"
#include "formats/files/profile/hardware_file.hpp"
#include "formats/files/toml_text.hpp"
#include "lib/core/file.hpp"

#include <algorithm>
#include <cmath>

namespace tpx::formats {
namespace {

constexpr std::uint64_t longest_file = std::uint64_t{256} << 20;

const toml::array& array_of(const toml::node& node, std::string_view file, std::size_t size) {
    const toml::array* array = node.as_array();
    if (!array || (*array).size() != size) throw toml_error(node, file, "an array of {} values was expected", size);
    return *array;
}

// [median, spread]; [] is not measured.
MeasuredValue measured_of(const toml::node& node, std::string_view file, const FigureRange& range) {
    if (const toml::array* array = node.as_array(); array && (*array).empty()) return {};
    const toml::array& pair = array_of(node, file, 2);
    const auto median = pair[0].is_number() ? pair[0].value<double>() : std::nullopt;
    const auto spread = pair[1].is_number() ? pair[1].value<double>() : std::nullopt;
    if (!median || !spread) throw toml_error(node, file, "two numbers were expected: a median and a spread");
    if (!range.has(*median)) throw toml_error(node, file, "{:g} {} cannot be right", *median, range.unit);
    // No spread is too large: visits to a machine that stood still for a while lie a thousand times apart.
    if (!(std::isfinite(*spread) && *spread >= 0))
        throw toml_error(node, file, "a spread of {:g} cannot be right", *spread);
    return {*median, *spread};
}

const toml::table& table_of(const toml::node& node, std::string_view file) {
    const toml::table* table = node.as_table();
    if (!table) throw toml_error(node, file, "a table was expected");
    return *table;
}

// Fills `values` from a value called as one of `quantities`; false if there is none.
template <class Owner, std::size_t Count>
bool set_quantity(Owner& owner, const std::array<Quantity<Owner>, Count>& quantities, std::string_view key,
                  const toml::node& node, std::string_view file) {
    const auto found = std::ranges::find(quantities, key, &Quantity<Owner>::key);
    if (found == quantities.end()) return false;
    owner.*((*found).value) = measured_of(node, file, rates_of_files);
    return true;
}

template <class Owner>
struct Count {
    std::string_view key;
    int Owner::*value;
};
constexpr std::array<Count<HostHardware>, 5> host_counts{{{"ranks", &HostHardware::ranks},
                                                          {"sockets", &HostHardware::sockets},
                                                          {"numa_nodes", &HostHardware::numa_nodes},
                                                          {"cores", &HostHardware::cores},
                                                          {"threads", &HostHardware::threads}}};
constexpr std::array<Count<GpuHardware>, 2> gpu_counts{
    {{"numa_node", &GpuHardware::numa_node}, {"nvlinks", &GpuHardware::nvlinks}}};

template <class Owner, std::size_t Size>
bool set_count(Owner& owner, const std::array<Count<Owner>, Size>& counts, std::string_view key, const toml::node& node,
               std::string_view file) {
    const auto found = std::ranges::find(counts, key, &Count<Owner>::key);
    if (found == counts.end()) return false;
    owner.*((*found).value) = integer_of(node, file, 0, 1'000'000);
    return true;
}

[[noreturn]] void refuse(std::string_view key, const toml::node& node, std::string_view file) {
    throw toml_error(node, file, "unknown key '{}'; tpx-hardware(5) lists the known keys", key);
}

GpuHardware gpu_of(const toml::node& node, std::string_view file, std::size_t gpus) {
    GpuHardware gpu;
    for (const auto& [name, value] : table_of(node, file)) {
        const std::string_view key = name.str();
        if (set_quantity(gpu, gpu_quantities, key, value, file) || set_count(gpu, gpu_counts, key, value, file))
            continue;
        if (key == "name")
            gpu.name = text_of(value, file);
        else if (key == "bus")
            gpu.bus = text_of(value, file);
        else if (key == "peers")
            for (const toml::node& peer : array_of(value, file, gpus))
                gpu.peers.push_back(measured_of(peer, file, rates_of_files));
        else
            refuse(key, value, file);
    }
    return gpu;
}

bool set_near_link(HostHardware& host, std::string_view key, const toml::node& node, std::string_view file) {
    if (key == "same_socket")
        host.same_socket.rate = measured_of(node, file, rates_of_files);
    else if (key == "same_socket_latency")
        host.same_socket.latency = measured_of(node, file, times_of_files);
    else if (key == "same_host")
        host.same_host.rate = measured_of(node, file, rates_of_files);
    else if (key == "same_host_latency")
        host.same_host.latency = measured_of(node, file, times_of_files);
    else
        return false;
    return true;
}

void set_host(HostHardware& host, const toml::table& table, std::string_view file) {
    for (const auto& [name, value] : table) {
        const std::string_view key = name.str();
        if (key == "name" || set_quantity(host, host_quantities, key, value, file) ||
            set_count(host, host_counts, key, value, file) || set_near_link(host, key, value, file))
            continue;
        if (key == "class") {
            integer_of(value, file, 0, 1'000'000);  // it follows from the rates
        } else if (key == "gpus" && value.is_array()) {
            const toml::array& gpus = *value.as_array();
            for (const toml::node& gpu : gpus) host.gpus.push_back(gpu_of(gpu, file, gpus.size()));
        } else {
            refuse(key, value, file);
        }
    }
}

void set_hosts(Hardware& hardware, const toml::node& node, std::string_view file) {
    const toml::array* tables = node.as_array();
    if (!tables) throw toml_error(node, file, "[[measured.hosts]] tables were expected");
    for (const toml::node& entry : *tables) {
        const toml::table& table = table_of(entry, file);
        const toml::node* name = table.get("name");
        if (!name) throw toml_error(entry, file, "a host needs a name");
        const auto host = std::ranges::find(hardware.hosts, text_of(*name, file), &HostHardware::name);
        if (host == hardware.hosts.end())
            throw toml_error(*name, file, "no [[hosts]] table has the host '{}'", text_of(*name, file));
        set_host(*host, table, file);
    }
}

void set_matrix(Hardware& hardware, MeasuredValue LinkHardware::*value, const toml::node& node, std::string_view file) {
    const std::size_t count = hardware.hosts.size();
    const FigureRange& range = value == &LinkHardware::rate ? rates_of_files : times_of_files;
    const toml::array& rows = array_of(node, file, count);
    for (std::size_t from = 0; from < count; ++from) {
        const toml::array& row = array_of(rows[from], file, count);
        for (std::size_t to = 0; to < count; ++to) {
            hardware.links[from][to].*value = measured_of(row[to], file, range);
            if (from == to && (hardware.links[from][to].*value).median > 0)
                throw toml_error(row[to], file, "a host has no link to itself: [] was expected");
        }
    }
}

// The typical link of each class; only where there is no matrix are links taken from it.
void set_pairs(Hardware& hardware, bool fill, const toml::node& node, std::string_view file) {
    for (const auto& [name, value] : table_of(node, file)) {
        const auto kind = std::ranges::find(pair_class_keys, name.str());
        if (kind == pair_class_keys.end()) refuse(name.str(), value, file);
        LinkHardware typical;
        for (const auto& [inner, field] : table_of(value, file)) {
            const std::string_view key = inner.str();
            if (key == "rate")
                typical.rate = measured_of(field, file, rates_of_files);
            else if (key == "latency")
                typical.latency = measured_of(field, file, times_of_files);
            else if (key != "count" && key != "slowest")
                refuse(key, field, file);
        }
        const auto own = static_cast<PairClass>(kind - pair_class_keys.begin());
        for (std::size_t a = 0; fill && a < hardware.links.size(); ++a)
            for (std::size_t b = 0; b < hardware.links.size(); ++b)
                if (a != b && class_of_pair(hardware.hosts[a], hardware.hosts[b]) == own)
                    hardware.links[a][b] = typical;
    }
}

void set_nccl(NcclHardware& nccl, const toml::node& node, std::string_view file) {
    for (const auto& [name, value] : table_of(node, file)) {
        const std::string_view key = name.str();
        const auto kind = std::ranges::find(pair_class_keys, key);
        if (kind != pair_class_keys.end())
            nccl.between[static_cast<std::size_t>(kind - pair_class_keys.begin())] =
                measured_of(value, file, rates_of_files);
        else if (key == "all_reduce")
            nccl.all_reduce = measured_of(value, file, rates_of_files);
        else if (key == "gpus")
            nccl.gpus = integer_of(value, file, 1, 1'000'000);
        else
            refuse(key, value, file);
    }
}

void set_measured(Hardware& hardware, const toml::table& measured, std::string_view file) {
    const std::size_t count = hardware.hosts.size();
    if (measured.contains("links") || measured.contains("latency") || measured.contains("pairs"))
        hardware.links.assign(count, std::vector<LinkHardware>(count));
    for (const auto& [name, value] : measured) {
        const std::string_view key = name.str();
        if (key == "hosts")
            set_hosts(hardware, value, file);
        else if (key == "links")
            set_matrix(hardware, &LinkHardware::rate, value, file);
        else if (key == "latency")
            set_matrix(hardware, &LinkHardware::latency, value, file);
        else if (key == "pairs")
            set_pairs(hardware, !measured.contains("links"), value, file);
        else if (key == "nccl")
            set_nccl(hardware.nccl, value, file);
        else
            refuse(key, value, file);
    }
    const auto is_unknown = [](const LinkHardware& link) { return link.rate.median == 0 && link.latency.median == 0; };
    if (std::ranges::all_of(hardware.links, [&](const auto& row) { return std::ranges::all_of(row, is_unknown); }))
        hardware.links.clear();
}

Hardware hardware_of(const std::vector<Host>& hosts) {
    Hardware hardware;
    for (const Host& host : hosts) {
        HostHardware& own = hardware.hosts.emplace_back();
        own.name = host.name;
        own.switch_group = host.switch_group;
        own.ranks = host.gpus;
        own.nic.median = host.nic.value_or(0);
        own.disk_read.median = host.disk_read.value_or(0);
        own.disk_write.median = host.disk_write.value_or(0);
        own.memory.median = host.memory.value_or(0);
    }
    return hardware;
}

}  // namespace

Hardware parse_hardware(std::string_view text, std::string_view file) {
    Hardware hardware = hardware_of(parse_hosts(text, file));
    if (!is_hosts_toml(text, file)) return hardware;
    const toml::table root = parse_toml_text(text, file);
    if (const toml::node* measured = root.get("measured")) set_measured(hardware, table_of(*measured, file), file);
    return hardware;
}

Hardware read_hardware(const std::string& path) { return parse_hardware(read_file(path, longest_file), path); }

}  // namespace tpx::formats
