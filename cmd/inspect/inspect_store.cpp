// SPDX-License-Identifier: Apache-2.0
#include "cmd/inspect/inspect_store.hpp"

#include "cmd/hosts/state_json.hpp"
#include "cmd/jobs/run_on_ranks.hpp"
#include "cmd/plan/plan_hosts.hpp"
#include "cmd/stores/store_survey.hpp"
#include "formats/files/merged_stores.hpp"
#include "formats/files/plan/host_names.hpp"
#include "formats/files/plan/hosts_file.hpp"
#include "lib/core/counted.hpp"
#include "lib/core/error.hpp"
#include "lib/core/host_name.hpp"
#include "lib/core/path.hpp"

#include <fmt/ranges.h>

#include <algorithm>
#include <cerrno>
#include <optional>

namespace tpx::cli {
namespace {

namespace fs = std::filesystem;
using Json = nlohmann::ordered_json;
using SwitchPhase = formats::SwitchRecord::SwitchPhase;

std::string short_name(const std::string& name) { return name.substr(0, name.find('.')); }

/// The store of one host, and what a process on this host has found in it.
struct SeenStore {
    std::string host;  ///< empty: the store was given by its path
    bool seen = false;
    StoreSummary summary;
    std::optional<formats::Manifest> manifest;  ///< of its current state
    std::string unfinished;                     ///< the new state of an unfinished switch; empty: none
    std::string bad_files;                      ///< which files of its current state are not complete; empty: none
};

/// Which files that `manifest` lists for its host number `number` are missing or have another size; empty: none.
std::string bad_files_of(const NodeStore& store, const formats::Manifest& manifest, std::uint32_t number) {
    std::size_t count = 0;
    std::string first;
    for (const formats::ManifestFile& file : manifest.files) {
        if (!std::ranges::binary_search(file.hosts, number)) continue;
        try {
            formats::require_size(store.state(state_name(manifest)) / file.path, file.size);
        } catch (const Error& error) {
            if (count++ == 0) first = error.what();
        }
    }
    return count < 2 ? first : fmt::format("{} (and {} more)", first, counted(count - 1, "file"));
}

/// The host of `manifest` that this store belongs to: the one named like a folder in the path of the store, or else
/// like this machine; empty: none.
std::string host_of_store(const NodeStore& store, const formats::Manifest& manifest) {
    std::vector<std::string> names{host_name(), short_name(host_name())};
    for (const fs::path& part : fs::absolute(store.folder()).lexically_normal()) names.insert(names.begin(), part);
    for (const std::string& name : names)
        if (std::ranges::find(manifest.hosts, name, &formats::ManifestHost::name) != manifest.hosts.end()) return name;
    return {};
}

/// The number of files of `manifest` that exist in its state in the store.
std::size_t count_files(const NodeStore& store, const formats::Manifest& manifest) {
    return static_cast<std::size_t>(std::ranges::count_if(manifest.files, [&](const formats::ManifestFile& file) {
        return path_exists(store.state(state_name(manifest)) / file.path);
    }));
}

/// Which files that `manifest` lists for `host` are missing or have another size; empty: none. If the name of the host
/// is unknown, the host is the one of the manifest that has as many files as the store.
std::string bad_files_of(const NodeStore& store, const formats::Manifest& manifest, const std::string& host) {
    const std::string name = host.empty() ? host_of_store(store, manifest) : host;
    const std::size_t count = name.empty() ? count_files(store, manifest) : 0;
    std::string found = name.empty() ? "its files match no host of its manifest" : "";
    for (std::uint32_t number = 0; number < manifest.hosts.size(); ++number) {
        if (!name.empty() && manifest.hosts[number].name != name) continue;
        const auto wanted = std::ranges::count_if(manifest.files, [&](const formats::ManifestFile& file) {
            return std::ranges::binary_search(file.hosts, number);
        });
        const std::string bad = bad_files_of(store, manifest, number);
        if (bad.empty() && (!name.empty() || static_cast<std::size_t>(wanted) == count)) return {};
        if (!name.empty()) found = bad;
    }
    return found;
}

SeenStore see(const std::string& host, const NodeStore& store) {
    SeenStore seen{.host = host, .seen = true, .summary = summary_of(store)};
    if (!seen.summary.current.empty() && seen.summary.fault.empty())
        seen.manifest = store.manifest(seen.summary.current);
    if (seen.manifest) seen.bad_files = bad_files_of(store, *seen.manifest, host);
    const auto& prepared = seen.summary.prepared;
    if (prepared && prepared->epoch >= seen.summary.epoch) seen.unfinished = prepared->state;
    return seen;
}

/// Whether rank `rank` of `size` reads the store of host number `h`.
bool looks_into(const InspectStoreOptions& options, const Host& host, std::size_t h, int rank, int size) {
    if (options.emulate) return static_cast<int>(h) % size == rank;
    return host.name == host_name() || host.name == short_name(host_name());
}

/// The stores of --hosts. Only rank 0 gets all of them. Collective.
std::vector<SeenStore> see_hosts(const mpi::Comm& comm, const InspectStoreOptions& options) {
    std::vector<SeenStore> stores;
    std::string mine;  // "NUMBER SUMMARY", the manifest and the bad files of each store, each followed by a NUL
    mpi::all_or_none(comm, [&] {
        const std::vector<Host> hosts = formats::read_hosts(options.hosts);
        for (std::size_t h = 0; h < hosts.size(); ++h) {
            stores.push_back({.host = hosts[h].name});
            const NodeStore store{formats::store_of(options.store, hosts[h])};
            if (!looks_into(options, hosts[h], h, comm.rank(), comm.size())) continue;
            const SeenStore seen = see(hosts[h].name, store);
            mine += fmt::format("{} {}", h, to_text(seen.summary)) + '\0' +
                    (seen.manifest ? formats::to_text(*seen.manifest) : "") + '\0' + seen.bad_files + '\0';
        }
    });
    for (const std::string& list : mpi::gather(comm, mine)) {
        for (std::size_t at = 0; at < list.size();) {
            const std::string summary{list.c_str() + at};
            const std::string manifest{list.c_str() + at + summary.size() + 1};
            at += summary.size() + manifest.size() + 2;
            SeenStore& store = stores[std::stoull(summary)];
            store.bad_files = list.c_str() + at;
            at += store.bad_files.size() + 1;
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
    if (!summary.record_fault.empty()) return summary.record_fault;
    return summary.fault.empty() ? store.bad_files : summary.fault;
}

/// Whether the current state of a store has the epoch of `newest`, but is another state.
bool has_other(const SeenStore& store, const formats::Manifest& newest) {
    return store.manifest && store.manifest->epoch == newest.epoch &&
           formats::to_text(*store.manifest) != formats::to_text(newest);
}

/// Whether a job can start from the newest state as far as `store` is concerned.
bool is_ready(const SeenStore& store, const formats::Manifest& newest) {
    if (!store.unfinished.empty() || !store.summary.record_fault.empty() || has_other(store, newest) ||
        lacks_last_state(store.summary, newest))
        return false;
    return !belongs_to(newest, store) ||
           (store.seen && store.manifest && store.manifest->epoch == newest.epoch && store.bad_files.empty());
}

/// The hosts of `newest` that are not among the hosts of `stores`.
std::vector<std::string> hosts_not_given(const std::vector<SeenStore>& stores, const formats::Manifest& newest) {
    std::vector<std::string> names;
    if (stores.size() == 1 && stores[0].host.empty()) return names;
    for (const formats::ManifestHost& host : newest.hosts)
        if (std::ranges::find(stores, host.name, &SeenStore::host) == stores.end()) names.push_back(host.name);
    return names;
}

/// Why a job cannot start from the newest state on all of these hosts, and what to do; empty: it can.
std::string obstacle_of(const std::vector<SeenStore>& stores, const formats::Manifest* newest) {
    if (newest == nullptr) return "no store has a usable current state";
    const auto any = [&](auto&& is) { return std::ranges::any_of(stores, is); };
    if (const auto names = hosts_not_given(stores, *newest); !names.empty())
        return fmt::format("the state is also on {}, which --hosts lacks", formats::fold_host_names(names));
    if (any([&](const SeenStore& store) { return !store.seen && belongs_to(*newest, store); }))
        return "start a process on each host";
    if (any([](const SeenStore& store) { return !store.unfinished.empty(); }))
        return "run tpx migrate --store with --hosts to end the unfinished switch";
    if (any([&](const SeenStore& store) { return !is_ready(store, *newest); }))
        return "restore the hosts with tpx migrate --store and --rejoin or --lost";
    return {};
}

std::string what_is_in(const SeenStore& store, const formats::Manifest* newest) {
    if (!store.seen) return "not seen: no process runs on this host";
    const StoreSummary& summary = store.summary;
    const bool is_usable = summary.record_fault.empty() && summary.fault.empty();
    std::string text = !is_usable ? fault_of(store) : summary.current.empty() ? "no current state" : summary.current;
    if (newest != nullptr && store.manifest && store.manifest->epoch < newest->epoch) text += " (outdated)";
    if (newest != nullptr && has_other(store, *newest)) text += " (another state of the same epoch)";
    if (is_usable && !store.bad_files.empty()) text += "; " + store.bad_files;
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
    const char* phase = record->phase == SwitchPhase::prepared ? "prepared"
                        : record->phase == SwitchPhase::commit ? "commit"
                                                               : "abort";
    return {{"change", record->change}, {"epoch", record->epoch}, {"state", record->state}, {"says", phase}};
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

void print(const InspectStoreOptions& options, const std::vector<SeenStore>& stores, const std::string& obstacle,
           Output& out) {
    const formats::Manifest* newest = newest_of(stores);
    if (out.json()) {
        Json json{{"store", options.store},
                  {"ready", obstacle.empty()},
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
    if (!obstacle.empty()) out.result("not ready: {}\n", obstacle);
}

}  // namespace

void inspect_store(const InspectStoreOptions& options, Output& out) {
    const auto show = [&](const std::vector<SeenStore>& stores) {
        const std::string obstacle = obstacle_of(stores, newest_of(stores));
        print(options, stores, obstacle, out);
        out.finish();
        return obstacle.empty() ? Exit::success : Exit::no;
    };
    if (!options.hosts.empty()) {
        run_on_ranks([&](const mpi::Comm& comm) {
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
    if (!path_exists(folder)) throw system_failure(folder, ENOENT);
    if (!path_is_directory(folder)) throw failure("{}: is not a folder", folder.string());
    if (!path_is_directory(folder / "states"))
        throw failure("{}: not a store of tpx migrate: it has no folder 'states'", folder.string());
    if (show({see("", NodeStore{folder})}) != Exit::success) throw ExitRequest{Exit::no};
}

}  // namespace tpx::cli
