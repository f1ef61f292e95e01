// SPDX-License-Identifier: Apache-2.0
#include "formats/files/trace/cluster_log.hpp"
#include "formats/files/trace/log_cells.hpp"
#include "lib/core/lower_case.hpp"

#include <algorithm>
#include <cctype>
#include <string>
#include <string_view>
#include <vector>

// Finds the columns of a job log by name.

namespace tpx::formats {
namespace {

// The words of a column's name, joined in lower case: "Run time (h)" becomes "runtimeh" and, as its last word is a unit
// of time, "runtime" with 3600 seconds.
struct ColumnWords {
    std::string all, without_unit;
    double seconds = 0;  // 0: without a unit
};

// The words of "resources.gpus", and of "gpus" in it.
struct NestedWords {
    ColumnWords whole, inner;
};

// Words for a part of a date, as in start_day, unlike "days".
bool is_part_of_date(std::string_view word) {
    return word == "week" || word == "day" || word == "minute" || word == "second";
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
    if (parts.size() > 1 && !is_part_of_date(parts.back())) words.seconds = seconds_of_unit(parts.back());
    for (std::size_t i = 0; i < parts.size(); ++i) {
        words.all += parts[i];
        if (i + 1 < parts.size()) words.without_unit += parts[i];
    }
    return words;
}

bool has_part(std::string_view column, std::string_view part) { return lower_case(column).find(part) != column.npos; }

// Whether a column contains limits. In logs of PBS, Resource_List.walltime is the limit of the duration, which is
// resources_used.walltime.
bool is_limit(std::string_view column) {
    return has_part(column, "resource_list") || has_part(column, "limit") || has_part(column, "request");
}

bool is_of_pbs(std::string_view column) {
    return has_part(column, "resource_list.") || has_part(column, "resources_used.");
}

// What follows the last point of a name, except for those in the name of a resource of Kubernetes.
std::string_view inner_name(std::string_view column) {
    constexpr std::string_view resource = ".nvidia.com/gpu";
    const std::size_t point = column.ends_with(resource) ? column.size() - resource.size() : column.rfind('.');
    return point == column.npos ? std::string_view{} : column.substr(point + 1);
}

// The unit of a column if it is called `name`: that of its last word if it is a time, otherwise `usual`; 0 if it has
// another name.
double unit_of_named(const ColumnWords& column, std::string_view name, double usual, bool is_time) {
    if (column.all == name) return usual;
    return is_time && column.without_unit == name ? column.seconds : 0;
}

double unit_of_named(const NestedWords& column, std::string_view name, double usual, bool is_time) {
    const double unit = unit_of_named(column.whole, name, usual, is_time);
    return unit > 0 ? unit : unit_of_named(column.inner, name, usual, is_time);
}

}  // namespace

// As column_words() joins them. If several names of a quantity occur, the first in this list is used.
const ClusterLog::KnownColumn ClusterLog::known_columns[] = {
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
    {"timesubmit", Quantity::submitted},
    {"qtime", Quantity::submitted},  // of PBS
    {"starttime", Quantity::started},
    {"scheduledtime", Quantity::started},
    {"start", Quantity::started},
    {"startedat", Quantity::started},
    {"started", Quantity::started},
    {"starttimestamp", Quantity::started},
    {"timestart", Quantity::started},
    {"created", Quantity::submitted},  // of W&B
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
    {"timeend", Quantity::ended},
    {"duration", Quantity::duration},
    {"elapsedraw", Quantity::duration},
    {"elapsed", Quantity::duration},
    {"runtime", Quantity::duration},
    {"jobduration", Quantity::duration},
    {"executiontime", Quantity::duration},
    {"elapsedtime", Quantity::duration},
    {"walltime", Quantity::duration},
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

void ClusterLog::find_columns() {
    std::vector<NestedWords> columns;
    for (const std::string& column : table_.columns)
        columns.push_back({column_words(column), column_words(inner_name(column))});
    const auto words = [](const NestedWords& column) -> const std::string& { return column.whole.all; };
    // Some names have another meaning elsewhere: qtime, that of seconds in the queue, and walltime, that of a limit.
    const auto is_ambiguous = [&](const KnownColumn& known, std::string_view column) {
        if (known.name == "qtime") return std::ranges::none_of(table_.columns, is_of_pbs);
        if (known.name == "created")
            return has(Quantity::started) || std::ranges::find(columns, "runtime", words) == columns.end();
        if (known.quantity != Quantity::duration) return false;
        const bool is_doubtful = known.name == "walltime" && !has_part(column, "resources_used");
        return is_limit(column) || (is_doubtful && has(Quantity::started) && has(Quantity::ended));
    };
    const auto find = [&](const KnownColumn& known) {
        for (std::size_t i = 0; i < columns.size(); ++i) {
            if (is_ambiguous(known, table_.columns[i])) continue;
            if (const double unit = unit_of_named(columns[i], known.name, known.unit, is_time(known.quantity));
                unit > 0)
                return Column{i, unit, known.per_instance, known.name};
        }
        return Column{};
    };
    for (const KnownColumn& known : known_columns)
        if (!has(known.quantity)) columns_[std::size_t(known.quantity)] = find(known);
    Column& instances = columns_[std::size_t(Quantity::instances)];
    // "gpus_per_node" must be multiplied by nodes, whatever other instances there are.
    if (column(Quantity::gpus).name.starts_with("gpusper")) {
        instances = {};
        for (const KnownColumn& known : known_columns)
            if (known.counts_hosts() && !has(Quantity::instances)) instances = find(known);
        lacks_nodes_ = !has(Quantity::instances);
    }
    if (!column(Quantity::gpus).per_instance && !column(Quantity::cores).per_instance) instances = {};
}

}  // namespace tpx::formats
