// SPDX-License-Identifier: Apache-2.0
#include "cmd/plan/plan_report.hpp"
#include "lib/core/counted.hpp"
#include "lib/core/units.hpp"

#include <algorithm>

namespace tpx::cli {
namespace {

std::string ranks_of(const Layout& layout) {
    return fmt::format("{} ({} rank{})", to_string(layout), layout.ranks(), layout.ranks() == 1 ? "" : "s");
}

std::string spoken_side(formats::Format format, const Reading& reading, const std::optional<Layout>& layout) {
    const std::string names = reading.dialect ? fmt::format(", {} names", reading.dialect->name) : "";
    return fmt::format("{}{}{}", formats::name(format), names, layout ? ", " + ranks_of(*layout) : "");
}

void print_subject(const PlanReport& report, Output& out) {
    if (report.model) {
        const std::string format = report.format.empty() ? "" : report.format + ", ";
        out.result("model  {}\nfrom   {}{}\nto     {}{}\n", report.model->name, format, ranks_of(*report.from), format,
                   ranks_of(report.to));
        return;
    }
    const CheckpointChange& change = *report.checkpoint;
    const formats::Source& source = change.opened.source;
    out.result("from   {}\n", spoken_side(source.checkpoint.format, source.reading, report.from));
    out.result("to     {}\n",
               spoken_side(change.target.format, change.conversion.expressed.reading, change.target.layout));
    out.result("read   {} in {}, write {} in {} and {}\n", format_size(change.certificate.bytes_read),
               counted(change.certificate.moves, "move"), format_size(change.certificate.bytes_written),
               counted(change.conversion.draft.pieces.size(), "piece"),
               counted(change.conversion.draft.files.size(), "file"));
}

void print_roles(const PlanReport& report, Output& out) {
    const Relocation& relocation = report.change.relocation;
    const bool reads = relocation.total.storage > 0;
    out.result("\n{:<12} {:>10} {:>10} {:>10} {:>10} {:>10}{}\n", "role", "needed", "kept", "local", "same host",
               "other host", reads ? "    storage" : "");
    const auto row = [&](const std::string& role, const BytesBySource& bytes) {
        out.result("{:<12} {:>10} {:>10} {:>10} {:>10} {:>10}{}\n", role, format_size(bytes.needed),
                   format_size(bytes.kept), format_size(bytes.local), format_size(bytes.same_host),
                   format_size(bytes.other_host), reads ? fmt::format(" {:>10}", format_size(bytes.storage)) : "");
    };
    for (std::size_t r = 0; r < report.change.parcels.roles.size(); ++r)
        row(std::string{name(report.change.parcels.roles[r])}, relocation.roles[r]);
    if (report.change.parcels.roles.size() > 1) row("all", relocation.total);
}

// "send   4.00 GB by host3, 6.00 GB by all": the busiest host for one kind of load.
void print_busiest(const PlanReport& report, const char* what, std::uint64_t Load::*load, Output& out) {
    const auto& loads = report.change.relocation.hosts;
    const auto busiest = std::ranges::max_element(loads, {}, load);
    if (busiest == loads.end() || (*busiest).*load == 0) return;
    std::uint64_t sum = 0;
    for (const Load& each : loads) sum += each.*load;
    out.result("{:<6} {} by {}, {} by all\n", what, format_size((*busiest).*load),
               report.change.hosts[static_cast<std::size_t>(busiest - loads.begin())].name, format_size(sum));
}

void print_loads(const PlanReport& report, Output& out) {
    if (report.change.hosts.size() < 2) return;
    out.result("\n");
    print_busiest(report, "send", &Load::nic_out, out);
    print_busiest(report, "get", &Load::nic_in, out);
    print_busiest(report, "read", &Load::disk_read, out);
    print_busiest(report, "write", &Load::disk_write, out);
}

void print_schedule(const PlanReport& report, Output& out) {
    const Relocation& relocation = report.change.relocation;
    if (relocation.rounds == 0) return;
    out.result("rounds {}, about {} in sequence; staging buffers use at most {} of {} per host\n", relocation.rounds,
               format_seconds(relocation.seconds_with_barriers),
               format_size(*std::ranges::max_element(relocation.staging)), format_size(relocation.window));
}

std::string resource_words(const PlanReport& report, const ResourceBound& resource) {
    return fmt::format("{} {} on {}, {} at {}{}", format_seconds(resource.seconds), resource.resource,
                       report.change.hosts[resource.host].name, format_size(resource.bytes), format_rate(resource.rate),
                       resource.assumed ? " (assumed)" : "");
}

// Bytes copied at unknown rates, which the prediction does not count.
struct Uncounted {
    std::uint64_t copies = 0;  // inside devices
    std::uint64_t links = 0;   // between devices of a host
};

Uncounted uncounted_copies(const PlanReport& report) {
    const auto lacks = [&](auto rate, auto load) {
        for (std::size_t h = 0; h < report.change.hosts.size(); ++h)
            if (!(report.change.hosts[h].*rate) && report.change.relocation.hosts[h].*load > 0) return true;
        return false;
    };
    const BytesBySource& total = report.change.relocation.total;
    if (report.change.state != StateMedium::memory) return {};
    return {lacks(&Host::device_copy, &Load::device_copy) ? total.local : 0,
            lacks(&Host::device_link, &Load::device_link) ? total.same_host : 0};
}

void print_time(const PlanReport& report, Output& out) {
    const Prediction& prediction = report.change.prediction;
    const char* way = report.change.state == StateMedium::shared   ? "through shared storage"
                      : report.change.state == StateMedium::stores ? "between stores"
                                                                   : "between devices";
    const Uncounted uncounted = uncounted_copies(report);
    if (prediction.seconds() == 0 && uncounted.copies + uncounted.links > 0)
        out.result("time   unknown: nothing crosses between hosts, and rates inside hosts are not known\n");
    else if (prediction.is_bound())
        out.result("time   at least {} {}\n", format_seconds(prediction.seconds()), way);
    else if (prediction.bound_seconds() > 0)
        out.result("time   estimate {} {}; at least {} by the rates that are known\n",
                   format_seconds(prediction.seconds()), way, format_seconds(prediction.bound_seconds()));
    else
        out.result("time   estimate {} {}\n", format_seconds(prediction.seconds()), way);
    for (const ResourceBound& resource : prediction.resources) {
        if (resource.bytes > 0 && resource.rate > 0 && resource.counts)
            out.result("       {}\n", resource_words(report, resource));
    }
    if (uncounted.copies + uncounted.links > 0)
        out.result("       not counted: {} copied inside devices, {} between devices of a host\n",
                   format_size(uncounted.copies), format_size(uncounted.links));
}

}  // namespace

void print_plan(const PlanReport& report, Output& out) {
    print_subject(report, out);
    print_sources(report, out);
    print_roles(report, out);
    print_loads(report, out);
    print_schedule(report, out);
    print_proof(report, out);
    print_time(report, out);
    print_peak(report, out);
    print_survival(report, out);
}

}  // namespace tpx::cli
