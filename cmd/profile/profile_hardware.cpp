// SPDX-License-Identifier: Apache-2.0
#include "cmd/profile/profile_hardware.hpp"

#include "cmd/jobs/run_on_ranks.hpp"
#include "cmd/output/output.hpp"
#include "cmd/output/output_file.hpp"
#include "cmd/profile/hardware_survey.hpp"
#include "cmd/profile/profile.hpp"
#include "formats/files/plan/hosts_file.hpp"
#include "formats/files/profile/hardware_file.hpp"
#include "lib/core/counted.hpp"
#include "lib/core/error.hpp"
#include "lib/core/path.hpp"
#include "lib/core/units.hpp"
#include "lib/core/write_file.hpp"

#include <nlohmann/json.hpp>

#include <algorithm>
#include <filesystem>

namespace tpx::cli {
namespace {

void note_noise(const Hardware& hardware, Output& out) {
    constexpr std::size_t shown = 5;
    const std::vector<std::string> lines = noisy(hardware);
    for (std::size_t i = 0; i < std::min(lines.size(), shown); ++i) out.note("{}", lines[i]);
    if (lines.size() > shown) out.note("{} more spread by more than 20 %", lines.size() - shown);
}

std::vector<DegradedRate> compare_with(const std::string& path, const Hardware& now, Output& out) {
    if (path.empty()) return {};
    const Hardware before = formats::read_hardware(path);
    std::size_t shared = 0;
    for (const HostHardware& host : before.hosts) {
        const auto found = std::ranges::find(now.hosts, host.name, &HostHardware::name);
        shared += found != now.hosts.end();
        if (found != now.hosts.end() && (*found).gpus.size() < host.gpus.size())
            out.note("{}: {}, {} in {}", host.name, counted((*found).gpus.size(), "GPU"), host.gpus.size(), path);
    }
    if (shared == 0)
        throw Error{Exit::usage, "--compare: {} has none of these hosts, such as '{}'", path, now.hosts.front().name};
    if (shared < before.hosts.size())
        out.note("{} of {} in {} {} not measured", before.hosts.size() - shared, counted(before.hosts.size(), "host"),
                 path, before.hosts.size() - shared == 1 ? "was" : "were");
    return degraded(before, now);
}

Exit report(const ProfileHardwareOptions& options, const Hardware& hardware, Output& out) {
    note_noise(hardware, out);
    const std::vector<DegradedRate> slower = compare_with(options.compare, hardware, out);
    if (!options.output.empty()) write_file(options.output, formats::hardware_text(hardware));
    const nlohmann::ordered_json json = hardware_json(hardware, slower);
    if (!options.html.empty()) write_file(options.html, hardware_html(json));
    if (out.json()) {
        out.object("tpx.profile.hardware/1", json);
    } else {
        print_hardware(hardware, out);
        for (const DegradedRate& each : slower)
            out.result("slower: {} has {}, had {}\n", each.what, format_rate(each.now), format_rate(each.before));
    }
    return slower.empty() ? Exit::success : Exit::no;
}

SurveyOptions survey_options(const ProfileHardwareOptions& options) {
    const auto measures = [&](const char* part) { return std::ranges::find(options.skip, part) == options.skip.end(); };
    SurveyOptions survey{.folder = options.folder.empty() ? "." : options.folder,
                         .seconds = double(options.seconds.value_or(20)),
                         .memory = measures("memory"),
                         .disk = measures("disk"),
                         .links = measures("links"),
                         .gpus = measures("gpus"),
                         .hosts = {}};
    if (!options.hosts.empty()) survey.hosts = formats::read_hosts(options.hosts);
    return survey;
}

Exit measure(const mpi::Comm& comm, const ProfileHardwareOptions& options, Output& out) {
    SurveyOptions survey;
    // What would only be noticed at the end must not cost the time.
    mpi::all_or_none(comm, [&] {
        const ReadRecord record;
        survey = survey_options(options);
        if (!options.compare.empty()) formats::read_hardware(options.compare);
        check_outputs_apart({{"--output", options.output}, {"--html", options.html}}, record);
        if (survey.disk && !path_is_directory(survey.folder))
            throw failure("{}: there is no such folder", survey.folder);
        if (comm.rank() != 0) return;
        for (const std::string& path : {options.output, options.html})
            if (!path.empty()) check_writable(path);
    });
    out.note("this takes about {} s", survey.seconds);
    const Hardware hardware = survey_hardware(comm, survey, out);
    std::uint64_t exit = 0;
    mpi::all_or_none(comm, [&] {
        if (comm.rank() == 0) exit = static_cast<std::uint64_t>(report(options, hardware, out));
    });
    mpi::all_max(comm, std::span{&exit, 1});
    return static_cast<Exit>(exit);
}

}  // namespace

void run_profile_hardware(const ProfileHardwareOptions& options, Output& out) {
    if (!options.show.empty()) {
        if (!out.is_printing()) return;
        const ReadRecord record;
        const Hardware hardware = formats::read_hardware(options.show);
        if (!options.compare.empty()) formats::read_hardware(options.compare);
        check_outputs_apart({{"--output", options.output}, {"--html", options.html}}, record);
        const Exit exit = report(options, hardware, out);
        if (exit != Exit::success) throw ExitRequest{exit};
        return;
    }
    run_on_ranks([&](const mpi::Comm& comm) {
        const Exit exit = measure(comm, options, out);
        out.finish();
        return exit;
    });
}

}  // namespace tpx::cli
