// SPDX-License-Identifier: Apache-2.0
#include "cmd/inspect_store.hpp"

#include "cmd/plan_hosts.hpp"
#include "cmd/ranks.hpp"
#include "cmd/store_json.hpp"
#include "cmd/store_survey.hpp"
#include "formats/files/plan/hosts_file.hpp"
#include "formats/files/stores.hpp"
#include "lib/core/counted.hpp"
#include "lib/core/error.hpp"
#include "lib/core/host_name.hpp"
#include "lib/core/path.hpp"

#include <fmt/ranges.h>

#include <algorithm>
#include <optional>

namespace tpx::cli {
namespace {

using Json = nlohmann::ordered_json;
using Says = formats::SwitchRecord::Says;

/// The store of one host, and what a process on this host has found in it.
struct SeenStore {
    std::string host;  ///< empty: the store was given by its path
    bool seen = false;
    StoreSummary summary;
    std::optional<formats::Manifest> manifest;  ///< of its current state
    std::string unfinished;                     ///< the new state of an unfinished switch; empty: none
};

SeenStore see(const std::string& host, const NodeStore& store) {
    SeenStore seen{.host = host, .seen = true, .summary = summary_of(store)};
    if (!seen.summary.current.empty() && seen.summary.fault.empty())
        seen.manifest = store.manifest(seen.summary.current);
    const auto& prepared = seen.summary.prepared;
    if (prepared && prepared->epoch >= seen.summary.epoch) seen.unfinished = prepared->state;
    return seen;
}

std::string short_name(const std::string& name) { return name.substr(0, name.find('.')); }

/// Whether rank `rank` of `size` reads the store of host number `h`.
bool looks_into(const InspectStoreOptions& options, const Host& host, std::size_t h, int rank, int size) {
    if (options.emulate) return static_cast<int>(h) % size == rank;
    return host.name == host_name() || host.name == short_name(host_name());
}

/// The stores of --hosts. Only rank 0 gets all of them. Collective.
std::vector<SeenStore> see_hosts(const mpi::Comm& comm, const InspectStoreOptions& options) {
    std::vector<SeenStore> stores;
    std::string mine;  // "NUMBER SUMMARY" and the manifest of each store, each followed by a NUL
    mpi::all_or_none(comm, [&] {
        const std::vector<Host> hosts = formats::read_hosts(options.hosts);
        for (std::size_t h = 0; h < hosts.size(); ++h) {
            stores.push_back({.host = hosts[h].name});
            const NodeStore store{formats::store_of(options.store, hosts[h])};
            if (!looks_into(options, hosts[h], h, comm.rank(), comm.size())) continue;
            const SeenStore seen = see(hosts[h].name, store);
            mine += fmt::format("{} {}", h, to_text(seen.summary)) + '\0' +
                    (seen.manifest ? formats::to_text(*seen.manifest) : "") + '\0';
        }
    });
    for (const std::string& list : mpi::gather(comm, mine)) {
        for (std::size_t at = 0; at < list.size();) {
            const std::string summary{list.c_str() + at};
            const std::string manifest{list.c_str() + at + summary.size() + 1};
            at += summary.size() + manifest.size() + 2;
            SeenStore& store = stores[std::stoull(summary)];
            store.seen = true;
            store.summary = parse_summary(summary.substr(summary.find(' ') + 1));
            if (!manifest.empty()) store.manifest = formats::parse_manifest(manifest, store.host);
            const auto& prepared = store.summary.prepared;
            if (prepared && prepared->epoch >= store.summary.epoch) store.unfinished = prepared->state;
        }
    }
    return stores;
}

/// The manifest of the newest current state; null if there is none.
const formats::Manifest* newest_of(const std::vector<SeenStore>& stores) {
    const formats::Manifest* newest = nullptr;
    for (const SeenStore& store : stores)
        if (store.manifest && (newest == nullptr || store.manifest->epoch > newest->epoch)) newest = &*store.manifest;
    return newest;
}

bool belongs_to(const formats::Manifest& manifest, const SeenStore& store) {
    return store.host.empty() ||
           std::ranges::find(manifest.hosts, store.host, &formats::ManifestHost::name) != manifest.hosts.end();
}

/// What is wrong with a store; empty: nothing.
std::string fault_of(const SeenStore& store) {
    const StoreSummary& summary = store.summary;
    return summary.record_fault.empty() ? summary.fault : summary.record_fault;
}

/// Whether a job can start from the newest state on all of these hosts.
bool is_ready(const std::vector<SeenStore>& stores, const formats::Manifest* newest) {
    return newest != nullptr && std::ranges::all_of(stores, [&](const SeenStore& store) {
               if (!store.unfinished.empty() || !store.summary.record_fault.empty()) return false;
               return !belongs_to(*newest, store) ||
                      (store.seen && store.manifest && formats::to_text(*store.manifest) == formats::to_text(*newest));
           });
}

std::string what_is_in(const SeenStore& store, const formats::Manifest* newest) {
    if (!store.seen) return "not seen: no process runs on this host";
    const StoreSummary& summary = store.summary;
    std::string text = !fault_of(store).empty()  ? fault_of(store)
                       : summary.current.empty() ? "no current state"
                                                 : summary.current;
    if (newest != nullptr && store.manifest && store.manifest->epoch < newest->epoch) text += " (outdated)";
    std::vector<std::string> old;
    for (const std::string& state : summary.states)
        if (state != summary.current && state != store.unfinished) old.push_back(state);
    if (!store.unfinished.empty()) text += fmt::format("; unfinished switch to {}", store.unfinished);
    if (!old.empty()) text += fmt::format("; other states: {}", fmt::join(old, ", "));
    if (!summary.stagings.empty()) text += fmt::format("; in staging: {}", fmt::join(summary.stagings, ", "));
    return text;
}

Json record_json(const std::optional<formats::SwitchRecord>& record) {
    if (!record) return nullptr;
    const char* says = record->says == Says::prepared ? "prepared" : record->says == Says::commit ? "commit" : "abort";
    return {{"change", record->change}, {"epoch", record->epoch}, {"state", record->state}, {"says", says}};
}

Json store_json(const SeenStore& store) {
    const StoreSummary& summary = store.summary;
    return {{"name", store.host},
            {"seen", store.seen},
            {"current", summary.current.empty() ? Json(nullptr) : Json(summary.current)},
            {"epoch", store.manifest ? Json(store.manifest->epoch) : Json(nullptr)},
            {"fault", fault_of(store).empty() ? Json(nullptr) : Json(fault_of(store))},
            {"states", summary.states},
            {"staging", summary.stagings},
            {"prepared", record_json(summary.prepared)},
            {"decision", record_json(summary.decision)}};
}

void print(const InspectStoreOptions& options, const std::vector<SeenStore>& stores, bool ready, Output& out) {
    const formats::Manifest* newest = newest_of(stores);
    if (out.json()) {
        Json json{{"store", options.store},
                  {"ready", ready},
                  {"current", newest != nullptr ? state_json(*newest) : Json(nullptr)},
                  {"hosts", Json::array()}};
        for (const SeenStore& store : stores) json["hosts"].push_back(store_json(store));
        return out.object("tpx.store/1", json);
    }
    if (newest == nullptr)
        out.result("current    none\n");
    else
        out.result(
            "current    {}\njob        {}\niteration  {}\nepoch      {}\nformat     {}\nlayout     {}\n"
            "replicas   {}\n",
            state_name(*newest), newest->job, newest->iteration, newest->epoch, newest->format, newest->layout,
            newest->replicas);
    for (const SeenStore& store : stores)
        out.result("{:<10} {}\n", store.host.empty() ? "store" : printable(store.host), what_is_in(store, newest));
    if (!ready && newest != nullptr)
        out.result("not ready: run tpx migrate --store with --hosts to end an unfinished switch or restore hosts\n");
}

}  // namespace

void inspect_store(const InspectStoreOptions& options, Output& out) {
    const auto show = [&](const std::vector<SeenStore>& stores) {
        const bool ready = is_ready(stores, newest_of(stores));
        print(options, stores, ready, out);
        out.finish();
        return ready ? Exit::success : Exit::no;
    };
    if (!options.hosts.empty()) {
        in_ranks([&](const mpi::Comm& comm) {
            const std::vector<SeenStore> stores = see_hosts(comm, options);
            std::string exit;
            mpi::all_or_none(comm, [&] {
                if (comm.rank() == 0) exit = std::to_string(static_cast<int>(show(stores)));
            });
            mpi::broadcast(comm, exit);
            return static_cast<Exit>(std::stoi(exit));
        });
        return;
    }
    if (!is_first_rank()) return;
    Host self;
    self.name = short_name(host_name());
    const bool pattern = options.store.find("{host}") != options.store.npos;
    const std::filesystem::path folder =
        pattern ? formats::store_of(options.store, self) : std::filesystem::path{options.store};
    if (!path_is_directory(folder / "states"))
        throw failure("{}: not a store of tpx migrate: it has no folder 'states'", folder.string());
    if (show({see("", NodeStore{folder})}) != Exit::success) throw Finished{Exit::no};
}

}  // namespace tpx::cli
