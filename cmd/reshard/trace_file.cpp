// SPDX-License-Identifier: Apache-2.0
#include "cmd/reshard/trace_file.hpp"

#include "lib/core/host_name.hpp"

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include <algorithm>

namespace tpx::cli {
namespace {

std::string line_of(const nlohmann::ordered_json& event) {
    return event.dump(-1, ' ', true, nlohmann::ordered_json::error_handler_t::replace) + ",\n";
}

std::string name_line(const char* what, int rank, int thread, const std::string& name) {
    return line_of({{"name", what}, {"ph", "M"}, {"pid", rank}, {"tid", thread}, {"args", {{"name", name}}}});
}

std::string event_line(const TraceEvent& event, int rank, std::int64_t start) {
    nlohmann::ordered_json json{{"name", event.name},    {"ph", "X"},   {"ts", event.begin - start},
                                {"dur", event.duration}, {"pid", rank}, {"tid", event.thread}};
    if (event.bytes > 0) json["args"]["bytes"] = event.bytes;
    if (!event.file.empty()) json["args"]["file"] = event.file;
    return line_of(json);
}

std::string lines_of(const Trace& trace, int rank, std::int64_t start) {
    std::string lines = name_line("process_name", rank, 0, fmt::format("rank {} on {}", rank, host_name()));
    int threads = 0;
    for (const TraceEvent& event : trace.events) threads = std::max(threads, event.thread);
    lines += name_line("thread_name", rank, 0, "main");
    for (int k = 1; k <= threads; ++k) lines += name_line("thread_name", rank, k, fmt::format("worker {}", k));
    for (const TraceEvent& event : trace.events) lines += event_line(event, rank, start);
    if (trace.dropped > 0)
        lines += name_line("process_labels", rank, 0, fmt::format("{} events dropped", trace.dropped));
    return lines;
}

}  // namespace

std::string trace_json(const mpi::Comm& comm, const Trace& trace) {
    std::string start = std::to_string(trace.events.empty() ? 0 : trace.events.front().begin);
    mpi::broadcast(comm, start);
    const std::vector<std::string> all = mpi::gather(comm, lines_of(trace, comm.rank(), std::stoll(start)));
    if (comm.rank() != 0) return {};
    std::string text = "{\"displayTimeUnit\": \"ms\", \"traceEvents\": [\n";
    for (const std::string& lines : all) text += lines;
    text.resize(text.size() - 2);  // the last comma
    return text + "\n]}\n";
}

}  // namespace tpx::cli
