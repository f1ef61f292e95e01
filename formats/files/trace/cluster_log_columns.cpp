// SPDX-License-Identifier: Apache-2.0
#include "formats/files/trace/cluster_log.hpp"
#include "lib/core/lower_case.hpp"

#include <algorithm>
#include <cctype>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

// Finds the columns of a job log by name.

namespace tpx::formats {
namespace {

// The words of a column's name, joined in lower case: "Run time (h)" becomes "runtimeh" and, as its last word is a unit
// of time, "runtime" with 3600 seconds.
struct ColumnWords {
    std::string all, without_unit;
    std::string inner;   // of "gpus" in "resources.gpus"
    double seconds = 0;  // 0: without a unit
};

double seconds_of_unit(std::string_view word) {
    static constexpr std::pair<std::string_view, double> units[] = {{"us", 1e-6},    {"microseconds", 1e-6},
                                                                    {"ns", 1e-9},    {"nanoseconds", 1e-9},
                                                                    {"ms", 1e-3},    {"milliseconds", 1e-3},
                                                                    {"s", 1},        {"sec", 1},
                                                                    {"secs", 1},     {"seconds", 1},
                                                                    {"min", 60},     {"mins", 60},
                                                                    {"minutes", 60}, {"h", 3600},
                                                                    {"hr", 3600},    {"hrs", 3600},
                                                                    {"hour", 3600},  {"hours", 3600},
                                                                    {"d", 86'400},   {"days", 86'400}};
    const auto* found = std::ranges::find(units, word, &std::pair<std::string_view, double>::first);
    return found == std::end(units) ? 0 : found->second;
}

ColumnWords column_words(std::string_view column) {
    std::vector<std::string> parts(1);
    for (const char c : lower_case(column)) {
        if (std::isalnum(static_cast<unsigned char>(c)) != 0)
            parts.back() += c;
        else if (!parts.back().empty())
            parts.emplace_back();
    }
    if (parts.back().empty()) parts.pop_back();
    ColumnWords words;
    if (parts.size() > 1) words.seconds = seconds_of_unit(parts.back());
    for (std::size_t i = 0; i < parts.size(); ++i) {
        words.all += parts[i];
        if (i + 1 < parts.size()) words.without_unit += parts[i];
    }
    return words;
}

}  // namespace

void ClusterLog::find_columns() {
    struct Name {
        std::string_view name;
        Quantity quantity;
        double unit = 1;
        bool per_instance = false;
    };
    // As column_words() joins them. If several names of a quantity occur, the first in this list is used.
    static constexpr Name names[] = {
        {"jobid", Quantity::name},
        {"jobname", Quantity::name},
        {"name", Quantity::name},
        {"podname", Quantity::name},
        {"job", Quantity::name},
        {"id", Quantity::name},
        {"taskname", Quantity::task},
        {"submittime", Quantity::submitted},
        {"submittedtime", Quantity::submitted},
        {"submissiontime", Quantity::submitted},
        {"creationtime", Quantity::submitted},
        {"submit", Quantity::submitted},
        {"submitted", Quantity::submitted},
        {"submittedat", Quantity::submitted},
        {"creationtimestamp", Quantity::submitted},
        {"createdat", Quantity::submitted},
        {"arrivaltime", Quantity::submitted},
        {"arrival", Quantity::submitted},
        {"createtime", Quantity::submitted},
        {"createdtime", Quantity::submitted},
        {"submittimestamp", Quantity::submitted},
        {"submissiontimestamp", Quantity::submitted},
        {"starttime", Quantity::started},
        {"scheduledtime", Quantity::started},
        {"start", Quantity::started},
        {"startedat", Quantity::started},
        {"started", Quantity::started},
        {"starttimestamp", Quantity::started},
        {"endtime", Quantity::ended},
        {"finishtime", Quantity::ended},
        {"deletiontime", Quantity::ended},
        {"end", Quantity::ended},
        {"endedat", Quantity::ended},
        {"finishedat", Quantity::ended},
        {"completedat", Quantity::ended},
        {"completiontime", Quantity::ended},
        {"ended", Quantity::ended},
        {"finishedtime", Quantity::ended},
        {"completedtime", Quantity::ended},
        {"endtimestamp", Quantity::ended},
        {"duration", Quantity::duration},
        {"elapsedraw", Quantity::duration},
        {"elapsed", Quantity::duration},
        {"runtime", Quantity::duration},
        {"jobduration", Quantity::duration},
        {"executiontime", Quantity::duration},
        {"walltime", Quantity::duration},
        {"elapsedtime", Quantity::duration},
        {"gpunum", Quantity::gpus},
        {"numgpus", Quantity::gpus},
        {"numgpu", Quantity::gpus},
        {"gpus", Quantity::gpus},
        {"gpucount", Quantity::gpus},
        {"ngpus", Quantity::gpus},
        {"requestedgpus", Quantity::gpus},
        {"gpusrequested", Quantity::gpus},
        {"gpudemand", Quantity::gpus},
        {"gpurequest", Quantity::gpus, 1, true},
        {"plangpu", Quantity::gpus, plan_percent, true},
        {"nvidiacomgpu", Quantity::gpus},
        {"totalgpus", Quantity::gpus},
        {"gpustotal", Quantity::gpus},
        {"allocatedgpus", Quantity::gpus},
        {"gpusallocated", Quantity::gpus},
        {"gpuspernode", Quantity::gpus, 1, true},
        {"gpusperhost", Quantity::gpus, 1, true},
        {"alloctres", Quantity::gpus},
        {"reqtres", Quantity::gpus},
        {"gpumilli", Quantity::share, 0.001},
        {"instnum", Quantity::instances},
        {"workernum", Quantity::instances},
        {"numnodes", Quantity::instances},
        {"nodes", Quantity::instances},
        {"replicas", Quantity::instances},
        {"nnodes", Quantity::instances},
        {"nodecount", Quantity::instances},
        {"nodenum", Quantity::instances},
        {"numhosts", Quantity::instances},
        {"hosts", Quantity::instances},
        {"numworkers", Quantity::instances},
        {"workers", Quantity::instances},
        {"numreplicas", Quantity::instances},
        {"parallelism", Quantity::instances},
        {"cpunum", Quantity::cores},
        {"numcpus", Quantity::cores},
        {"cpurequest", Quantity::cores, 1, true},
        {"plancpu", Quantity::cores, 0.01, true},
        {"cpumilli", Quantity::cores, 0.001},
        {"alloctres", Quantity::cores},
        {"reqtres", Quantity::cores},
        {"gputype", Quantity::kind},
        {"gpuspec", Quantity::kind},
        {"gpumodel", Quantity::kind},
        {"alloctres", Quantity::kind},
        {"reqtres", Quantity::kind},
        {"vc", Quantity::tenant},
        {"organization", Quantity::tenant},
        {"account", Quantity::tenant},
        {"tenant", Quantity::tenant},
        {"virtualcluster", Quantity::tenant},
        {"namespace", Quantity::tenant},
        {"jobtype", Quantity::job_class},
        {"qos", Quantity::job_class},
    };
    std::vector<ColumnWords> columns;
    for (const std::string& column : table_.columns) {
        columns.push_back(column_words(column));
        if (const std::size_t point = column.rfind('.'); point != column.npos)
            columns.back().inner = column_words(column.substr(point + 1)).all;
    }
    for (const auto& [name, quantity, unit, per_instance] : names) {
        if (has(quantity)) continue;
        for (std::size_t i = 0; i < columns.size() && !has(quantity); ++i) {
            const ColumnWords& words = columns[i];
            if (words.all == name || words.inner == name)
                columns_[std::size_t(quantity)] = {i, unit, per_instance};
            else if (is_time(quantity) && words.seconds > 0 && words.without_unit == name)
                columns_[std::size_t(quantity)] = {i, words.seconds, false};
        }
    }
    // "gpus_per_node" must be multiplied by nodes, whatever other instances there are.
    if (has(Quantity::gpus) && columns[column(Quantity::gpus).index].all.starts_with("gpusper")) {
        columns_[std::size_t(Quantity::instances)] = {};
        for (std::size_t i = columns.size(); i-- > 0;)
            if (const auto* name = std::ranges::find(names, columns[i].all, &Name::name);
                name != std::end(names) && name->quantity == Quantity::instances &&
                (name->name.find("node") != name->name.npos || name->name.find("host") != name->name.npos))
                columns_[std::size_t(Quantity::instances)] = {i, 1, false};
        lacks_nodes_ = !has(Quantity::instances);
    }
    const bool is_per_instance = column(Quantity::gpus).per_instance || column(Quantity::cores).per_instance;
    if (!is_per_instance) columns_[std::size_t(Quantity::instances)] = {};
}

}  // namespace tpx::formats
