// SPDX-License-Identifier: Apache-2.0
#include "formats/files/trace/philly_log.hpp"

#include "formats/files/trace/log_cells.hpp"
#include "formats/files/trace/rows.hpp"

#include <nlohmann/json.hpp>

#include <algorithm>

namespace tpx::formats {
namespace {

std::string word(const nlohmann::json& object, const char* key) {
    const auto found = object.find(key);
    return found != object.end() && found->is_string() ? found->get<std::string>() : std::string{};
}

// The cells of one job of Philly's log. The start is the first that is recorded, the end that of the last attempt.
std::vector<std::string> philly_cells(const nlohmann::json& job) {
    std::string begin, end;
    Time total = 0;
    std::size_t gpus = 0;
    for (const nlohmann::json& attempt : job.at("attempts")) {
        const std::string started = word(attempt, "start_time");
        end = word(attempt, "end_time");
        if (is_missing_time(begin)) begin = started;
        const auto from = parse_moment(started), to = parse_moment(end);
        if (from && to && *to > *from) total += std::min(*to - *from, time_of(max_trace_seconds));
        std::size_t held = 0;
        for (const nlohmann::json& host : attempt.at("detail")) held += host.at("gpus").size();
        gpus = std::max(gpus, held);
    }
    return {word(job, "jobid"),
            word(job, "vc"),
            word(job, "submitted_time"),
            begin,
            end,
            fmt::format("{}", seconds_of(total)),
            fmt::format("{}", gpus)};
}

}  // namespace

bool is_philly_log(std::string_view text) {
    constexpr std::size_t looked_at = 4096;
    const std::size_t begin = text.find_first_not_of(" \t\r\n");
    return begin != text.npos && text[begin] == '[' &&
           text.substr(begin, looked_at).find("\"attempts\"") != std::string_view::npos;
}

Table philly_log_table(std::string_view text, std::string_view file, std::vector<std::string>& bad) {
    Table table{
        std::string{file}, {"job_id", "vc", "submit_time", "start_time", "end_time", "duration", "num_gpus"}, {}};
    const auto jobs = nlohmann::json::parse(text, nullptr, false);
    if (jobs.is_discarded()) throw failure("{}: not JSON", file);
    std::size_t number = 0;
    for (const nlohmann::json& job : jobs) {
        ++number;
        try {
            table.rows.push_back({number, philly_cells(job)});
        } catch (const nlohmann::json::exception&) {
            bad.push_back(fmt::format(
                "{}:{}: not a job of Philly's log, with 'attempts' whose 'detail' has the 'gpus' of each host", file,
                number));
        } catch (const Error& error) {
            bad.push_back(fmt::format("{}:{}: {}", file, number, error.what()));
        }
    }
    return table;
}

}  // namespace tpx::formats
