// SPDX-License-Identifier: Apache-2.0
#include "formats/files/trace/cluster_file.hpp"

#include "formats/files/plan/host_names.hpp"
#include "formats/files/toml_text.hpp"
#include "lib/core/counted.hpp"
#include "lib/core/error.hpp"
#include "lib/core/file.hpp"
#include "lib/core/path.hpp"
#include "lib/core/units.hpp"

#include <algorithm>
#include <charconv>
#include <optional>
#include <set>

namespace tpx::formats {
namespace {

constexpr int most_hosts = 1'000'000;
constexpr int most_host_gpus = 4096;
constexpr std::string_view standard_kind = "GPU";

int kind_of(Cluster& cluster, std::string_view name) {
    const auto found = std::ranges::find(cluster.kinds, name);
    if (found == cluster.kinds.end()) cluster.kinds.emplace_back(name);
    return static_cast<int>(std::ranges::find(cluster.kinds, name) - cluster.kinds.begin());
}

// A whole number of what is `counted`; nothing where `text` is not all digits. Throws Error where it is not from 1 to
// `most`.
std::optional<int> number(std::string_view text, std::string_view counted, std::string_view word, int most) {
    if (text.empty() || text.find_first_not_of("0123456789") != text.npos) return {};
    int value = 0;
    const auto [end, code] = std::from_chars(text.data(), text.data() + text.size(), value);
    if (code != std::errc{} || value < 1 || value > most)
        throw Error{Exit::usage, "--cluster {}: the number of {} must be 1 to {}, not {}", word, counted, most, text};
    return value;
}

// "8x4" or "8x4:V100"; false where `word` looks like neither. Throws Error for numbers that are impossible.
bool add_group(Cluster& cluster, std::string_view word) {
    const std::size_t colon = std::min(word.find(':'), word.size());
    const std::string_view counts = word.substr(0, colon);
    std::size_t cross = counts.find("×"), length = std::string_view("×").size();
    if (cross == counts.npos) cross = counts.find_first_of("xX"), length = 1;
    if (cross == counts.npos) return false;
    const auto hosts = number(counts.substr(0, cross), "hosts", word, most_hosts);
    const auto gpus =
        hosts ? number(counts.substr(cross + length), "GPUs of a host", word, most_host_gpus) : std::nullopt;
    if (!hosts || !gpus || colon + 1 == word.size()) return false;
    const std::string_view kind = colon < word.size() ? word.substr(colon + 1) : standard_kind;
    const int index = kind_of(cluster, kind);
    for (int i = 0; i < *hosts; ++i)
        cluster.hosts.push_back({fmt::format("n{}", cluster.hosts.size()), index, *gpus, 0, 0});
    return true;
}

bool add_groups(Cluster& cluster, std::string_view text) {
    while (!text.empty()) {
        const std::size_t end = std::min(text.find(','), text.size());
        if (!add_group(cluster, text.substr(0, end))) return false;
        text.remove_prefix(std::min(end + 1, text.size()));
    }
    return true;
}

class ClusterReader {
public:
    explicit ClusterReader(std::string_view file) : file_{file} {}

    Cluster read(const toml::table& root) {
        for (const auto& [key, value] : root) {
            if (key == "hosts")
                each(value, [&](const toml::table& table) { add_hosts(table); });
            else if (key == "tenants")
                each(value, [&](const toml::table& table) { add_tenant(table); });
            else
                throw toml_error(value, file_, "unknown key '{}'; hosts and tenants are known", key.str());
        }
        if (cluster_.hosts.empty()) throw Error{Exit::usage, "{}: contains no hosts", file_};
        check_quotas(root);
        return std::move(cluster_);
    }

private:
    template <class Body>
    void each(const toml::node& node, Body body) {
        const toml::array* array = node.as_array();
        if (!array || !array->is_array_of_tables()) throw toml_error(node, file_, "an array of tables was expected");
        for (const toml::node& element : *array) body(*element.as_table());
    }

    double bytes(const toml::node& node) const {
        if (const auto value = node.value_exact<std::int64_t>(); value && *value >= 0)
            return static_cast<double>(*value);
        try {
            return static_cast<double>(parse_bytes(text_of(node, file_)));
        } catch (Error& error) {
            throw toml_error(node, file_, "{}", error.what());
        }
    }

    void add_hosts(const toml::table& table) {
        ClusterHost host;
        std::string names, kind{standard_kind};
        for (const auto& [key, value] : table) {
            if (key == "name")
                names = text_of(value, file_);
            else if (key == "kind")
                kind = text_of(value, file_);
            else if (key == "gpus")
                host.gpus = integer_of(value, file_, 0, most_host_gpus);
            else if (key == "cpus")
                host.cpus = integer_of(value, file_, 0, 1 << 20);
            else if (key == "memory")
                host.memory = bytes(value);
            else
                throw toml_error(value, file_, "unknown key '{}'; name, kind, gpus, cpus and memory are known",
                                 key.str());
        }
        host.kind = kind_of(cluster_, kind);
        for (const std::string& name : expand_host_names(names)) {
            host.name = name;
            if (!names_.insert(name).second) throw toml_error(table, file_, "host '{}' is there twice", name);
            cluster_.hosts.push_back(host);
        }
        if (names.empty()) throw toml_error(table, file_, "a host needs a name");
        if (cluster_.hosts.size() > most_hosts) throw toml_error(table, file_, "more than {} hosts", most_hosts);
    }

    void add_tenant(const toml::table& table) {
        Tenant tenant;
        for (const auto& [key, value] : table) {
            if (key == "name")
                tenant.name = text_of(value, file_);
            else if (key == "quota")
                tenant.quota = integer_of(value, file_, 0, std::numeric_limits<int>::max());
            else
                throw toml_error(value, file_, "unknown key '{}'; name and quota are known", key.str());
        }
        if (tenant.name.empty()) throw toml_error(table, file_, "a tenant needs a name");
        for (const Tenant& other : cluster_.tenants)
            if (other.name == tenant.name) throw toml_error(table, file_, "tenant '{}' is there twice", tenant.name);
        cluster_.tenants.push_back(std::move(tenant));
    }

    void check_quotas(const toml::table& root) const {
        for (std::size_t i = 0; i < cluster_.tenants.size(); ++i)
            if (cluster_.tenants[i].quota > cluster_.gpus())
                throw toml_error((*root["tenants"].as_array())[i], file_,
                                 "tenant '{}' has a quota of {}, the cluster has {}", cluster_.tenants[i].name,
                                 counted(std::uint64_t(cluster_.tenants[i].quota), "GPU"), cluster_.gpus());
    }

    std::string_view file_;
    Cluster cluster_;
    std::set<std::string> names_;
};

}  // namespace

Cluster read_cluster(const std::string& argument) {
    Cluster cluster;
    if (!argument.empty() && argument[0] >= '0' && argument[0] <= '9' && add_groups(cluster, argument)) {
        if (cluster.hosts.size() > most_hosts) throw Error{Exit::usage, "{}: more than {} hosts", argument, most_hosts};
        return cluster;
    }
    if (path_kind(argument) == PathKind::absent)
        throw failure("cluster '{}': neither a file nor hosts in the form 8x4 (8 hosts with 4 GPUs each)", argument);
    constexpr std::uint64_t longest_file = std::uint64_t{16} << 20;
    return parse_cluster(read_file(argument, longest_file), argument);
}

Cluster parse_cluster(std::string_view text, std::string_view file) {
    return ClusterReader{file}.read(parse_toml_text(text, file));
}

}  // namespace tpx::formats
