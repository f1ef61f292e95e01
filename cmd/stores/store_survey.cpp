// SPDX-License-Identifier: Apache-2.0
#include "cmd/stores/store_survey.hpp"

#include "cmd/hosts/migrate_files.hpp"
#include "cmd/stores/store_refusals.hpp"
#include "lib/core/error.hpp"
#include "lib/core/fingerprint.hpp"
#include "lib/core/path.hpp"
#include "lib/exec/agreement.hpp"

#include <nlohmann/json.hpp>

#include <algorithm>
#include <charconv>
#include <set>
#include <tuple>

namespace tpx::cli {
std::uint64_t epoch_of_name(const std::string& state) {
    std::uint64_t epoch = 0;
    const std::size_t at = state.rfind('-');
    if (at == state.npos) return 0;
    constexpr std::uint64_t most = std::uint64_t{1} << 50;  // larger numbers are not epochs
    const char* end = state.data() + state.size();
    const auto [last, code] = std::from_chars(state.data() + at + 1, end, epoch);
    return code == std::errc{} && last == end && epoch < most ? epoch : 0;
}

namespace {

namespace fs = std::filesystem;
using Json = nlohmann::ordered_json;

Json packed_record(const std::optional<formats::SwitchRecord>& record) {
    return record ? Json(formats::to_text(*record)) : Json(nullptr);
}

std::optional<formats::SwitchRecord> record_of(const Json& json) {
    if (json.is_null()) return std::nullopt;
    return formats::parse_record(json.get<std::string>(), "record");
}

bool is_complete(const NodeStore& store, const std::string& state) {
    try {
        return state_name(store.manifest(state)) == state;
    } catch (const Error&) {
        return false;
    }
}

/// Finds the newest state that the store was switched to: what `current` links to, what the decision names, or a
/// complete state in `states/`, unless its switch is unfinished. If there is no link and no decision, a state in
/// `states/` that is not complete counts, too.
void find_last_state(StoreSummary& summary, const NodeStore& store) {
    const auto take = [&summary](const std::string& state, std::uint64_t epoch) {
        if (epoch <= summary.last_epoch) return;
        summary.last_state = state;
        summary.last_epoch = epoch;
    };
    const std::string linked = store.linked_state();
    take(linked, epoch_of_name(linked));
    const auto& [prepared, decision] = std::tie(summary.prepared, summary.decision);
    if (decision && decision->phase == formats::SwitchRecord::SwitchPhase::commit &&
        !(prepared && prepared->is_of(*decision)))
        take(decision->state, decision->epoch);
    const bool is_known = summary.last_epoch > 0;
    for (const std::string& state : summary.states) {
        const std::uint64_t epoch = epoch_of_name(state);
        if (epoch <= summary.last_epoch || (prepared && prepared->state == state)) continue;
        if (!is_known || is_complete(store, state)) take(state, epoch);
    }
}

}  // namespace

bool lacks_last_state(const StoreSummary& summary, const formats::Manifest& newest) {
    if (summary.last_epoch != newest.epoch) return summary.last_epoch > newest.epoch;
    const bool is_usable = !summary.current.empty() && summary.fault.empty();
    return !is_usable && summary.last_state != state_name(newest);
}

StoreSummary summary_of(const NodeStore& store) {
    StoreSummary summary;
    if (!path_exists(store.folder())) return summary;
    if (!path_is_directory(store.folder())) {
        summary.fault = fmt::format("{}: is not a folder", store.folder().string());
        return summary;
    }
    summary.states = store.states();
    summary.stagings = store.stagings();
    const auto read = [&summary](auto& record, const auto& reader) {
        try {
            record = reader();
        } catch (const Error& error) {
            summary.record_fault += fmt::format("{}{}", summary.record_fault.empty() ? "" : "; ", error.what());
        }
    };
    read(summary.prepared, [&] { return store.prepared(); });
    read(summary.decision, [&] { return store.decision(); });
    find_last_state(summary, store);
    try {
        summary.current = store.current();
        if (summary.current.empty()) return summary;
        const formats::Manifest manifest = store.manifest(summary.current);
        summary.job = manifest.job;
        summary.iteration = manifest.iteration;
        summary.epoch = manifest.epoch;
        summary.change = manifest.change;
        Fingerprint print;
        print.add(formats::to_text(manifest));
        summary.digest = fmt::format("{:016x}", print.value());
    } catch (const Error& error) {
        summary.fault = error.what();
    }
    return summary;
}

std::string to_text(const StoreSummary& summary) {
    return Json{{"current", summary.current},
                {"fault", summary.fault},
                {"job", summary.job},
                {"iteration", summary.iteration},
                {"epoch", summary.epoch},
                {"change", summary.change},
                {"digest", summary.digest},
                {"prepared", packed_record(summary.prepared)},
                {"decision", packed_record(summary.decision)},
                {"last_state", summary.last_state},
                {"last_epoch", summary.last_epoch},
                {"record_fault", summary.record_fault},
                {"states", summary.states},
                {"stagings", summary.stagings}}
        .dump();
}

StoreSummary parse_summary(const std::string& text) {
    const Json json = Json::parse(text);
    return {json.at("current"),
            json.at("fault"),
            json.at("job"),
            json.at("iteration"),
            json.at("epoch"),
            json.at("change"),
            json.at("digest"),
            record_of(json.at("prepared")),
            record_of(json.at("decision")),
            json.at("last_state"),
            json.at("last_epoch"),
            json.at("record_fault"),
            json.at("states").get<std::vector<std::string>>(),
            json.at("stagings").get<std::vector<std::string>>()};
}

std::uint64_t StoreSurvey::next_epoch() const {
    std::uint64_t last = 0;
    for (const StoreSummary& host : hosts) {
        last = std::max({last, host.epoch, host.last_epoch});
        for (const std::string& state : host.states) last = std::max(last, epoch_of_name(state));
        if (host.prepared) last = std::max(last, host.prepared->epoch);
        if (host.decision) last = std::max(last, host.decision->epoch);
    }
    return last + 1;
}

std::vector<StoreSummary> gather_summaries(const mpi::Comm& comm, const Team& team, const NodeStore& store) {
    std::string mine;
    mpi::all_or_none(comm, [&] {
        if (team.is_first(comm.rank())) mine = to_text(summary_of(store));
    });
    const std::vector<std::string> texts = mpi::all_gather(comm, mine);
    std::vector<StoreSummary> hosts(team.hosts.size());
    for (std::size_t h = 0; h < hosts.size(); ++h)
        if (team.rank_of_host[h] >= 0) hosts[h] = parse_summary(texts[static_cast<std::size_t>(team.rank_of_host[h])]);
    return hosts;
}

StoreSurvey survey_stores(const mpi::Comm& comm, const Team& team, const NodeStore& store,
                          const std::vector<std::string>& outdated) {
    StoreSurvey survey{.hosts = gather_summaries(comm, team, store)};
    require_records(team, survey.hosts, outdated);
    survey.has_current.resize(survey.hosts.size());
    const auto has_state = [&](std::size_t h) {
        return !survey.hosts[h].current.empty() && survey.hosts[h].fault.empty();
    };
    const auto rejoins = [&](std::size_t h) {
        return std::ranges::find(outdated, team.hosts[h].name) != outdated.end();
    };
    std::optional<std::size_t> newest;
    for (std::size_t h = 0; h < survey.hosts.size(); ++h)
        if (has_state(h) && !rejoins(h) && (!newest || survey.hosts[h].epoch > survey.hosts[*newest].epoch)) newest = h;
    if (!newest) return survey;
    const StoreSummary& first = survey.hosts[*newest];
    std::vector<std::size_t> others;
    for (std::size_t h = 0; h < survey.hosts.size(); ++h) {
        if (!has_state(h)) continue;
        // If the same command runs again, the first run may have given a rejoining host the state of the others.
        if (rejoins(h) && survey.hosts[h].digest != first.digest) continue;
        // If the same command runs again, a host that left in the first run is outdated; this is not an error.
        const bool has_left = !has_live_devices(team.hosts[h]) && survey.hosts[h].job == first.job;
        if (has_left && survey.hosts[h].epoch < first.epoch) continue;
        survey.has_current[h] = survey.hosts[h].digest == first.digest;
        if (!survey.has_current[h]) others.push_back(h);
    }
    if (!others.empty()) refuse_other_states(team, survey.hosts, *newest, others, outdated);
    std::string text;
    mpi::all_or_none(comm, [&] {
        if (comm.rank() == team.rank_of_host[*newest]) text = formats::to_text(store.manifest(first.current));
    });
    mpi::broadcast(comm, text, team.rank_of_host[*newest]);
    survey.manifest = formats::parse_manifest(text, store.state(first.current) / formats::manifest_name);
    std::vector<std::size_t> lacking;
    for (std::size_t h = 0; h < survey.hosts.size(); ++h)
        if (!rejoins(h) && lacks_last_state(survey.hosts[h], *survey.manifest)) lacking.push_back(h);
    if (!lacking.empty()) refuse_lost_states(team, survey.hosts, *newest, lacking, outdated);
    return survey;
}

}  // namespace tpx::cli
