// SPDX-License-Identifier: Apache-2.0
#include "formats/files/trace/outages_file.hpp"

#include "formats/files/trace/rows.hpp"
#include "lib/core/file.hpp"

#include <algorithm>

namespace tpx::formats {

std::vector<Outage> parse_outages(std::string_view text, std::string_view file, const Cluster& cluster) {
    const Table table = parse_table(text, file);
    for (const std::string_view column : {"host", "begin"})
        if (table.find(column) == Table::npos) throw failure("{}: no column '{}' in it", file, column);
    check_columns_of(table, {"host", "begin", "end"});
    std::vector<Outage> outages;
    for (const Table::Row& cells : table.rows) {
        const Row row{table, cells};
        const auto host = std::ranges::find(cluster.hosts, row.text("host"), &ClusterHost::name);
        if (host == cluster.hosts.end()) throw row.bad("host", "the cluster has no host '{}'", row.text("host"));
        Outage outage{static_cast<int>(host - cluster.hosts.begin()), row.time("begin"), never};
        if (row.has("end")) outage.end = row.time("end");
        if (outage.end <= outage.begin) throw row.bad("end", "it is not after the begin");
        outages.push_back(outage);
    }
    return outages;
}

std::vector<Outage> read_outages(const std::string& path, const Cluster& cluster) {
    constexpr std::uint64_t longest = std::uint64_t{64} << 20;
    return parse_outages(read_file(path, longest), path, cluster);
}

}  // namespace tpx::formats
