// SPDX-License-Identifier: Apache-2.0
#include "cmd/stores/store_check.hpp"

#include "lib/core/error.hpp"
#include "lib/core/parallel_for.hpp"
#include "lib/exec/rate_limiter.hpp"
#include "lib/exec/stop_signals.hpp"

#include <algorithm>
#include <set>

namespace tpx::cli {
namespace {

using Faults = std::set<std::pair<std::size_t, int>>;  // file of the manifest, and host of the team

/// By host of the manifest: its number in the team; -1 if it is not in the team or does not have the current state.
std::vector<int> hosts_in_team(const Team& team, const StoreSurvey& survey) {
    std::vector<int> here;
    for (const formats::ManifestHost& host : survey.manifest->hosts) {
        const auto found = std::ranges::find(team.hosts, host.name, &Host::name);
        const auto number = static_cast<int>(found - team.hosts.begin());
        here.push_back(found != team.hosts.end() && survey.has_current[number] ? number : -1);
    }
    return here;
}

/// The numbers of the files on this host that reader number `reader` of `readers` reads.
std::vector<std::size_t> files_of_reader(const formats::Manifest& manifest, const std::vector<int>& here,
                                         std::uint32_t host, int reader, int readers) {
    std::vector<std::size_t> files;
    int turn = 0;
    for (std::size_t f = 0; f < manifest.files.size(); ++f) {
        const bool is_here = std::ranges::any_of(manifest.files[f].hosts,
                                                 [&](std::uint32_t k) { return here[k] == static_cast<int>(host); });
        if (is_here && turn++ % readers == reader) files.push_back(f);
    }
    return files;
}

/// Throws Error if a file differs from the manifest.
void compare(const std::filesystem::path& path, const formats::ManifestFile& file, CheckFiles how,
             const std::function<void(std::uint64_t)>& on_read) {
    if (how == CheckFiles::by_size) return formats::require_size(path, file.size);
    if (formats::crc_of_file(path, file.size, on_read) != file.crc)
        throw failure("{}: its content does not match the checksum in the manifest", path.string());
}

/// How this rank reads the files of its host.
struct Reading {
    int threads = 1;
    RateLimiter* rate_limiter = nullptr;  ///< null: no limit
    CheckFiles how = CheckFiles::completely;
    const std::atomic<int>* signal = nullptr;      ///< as for check_state()
    const std::atomic<bool>* cancelled = nullptr;  ///< as for ContentCheck

    /// Throws Error if the comparison must end.
    void require_no_stop() const {
        check_not_stopped(signal, " while files were compared; the stores are as they were");
        if (cancelled != nullptr && *cancelled) throw failure("the comparison of files was canceled");
    }
};

/// The faults of the files of this host that this rank reads: "NUMBER CAUSE", with the number of the file in the
/// manifest, each followed by a NUL.
std::string find_faults(const mpi::Comm& host, const Team& team, const NodeStore& store, const StoreSurvey& survey,
                        const Reading& reading) {
    // With a limit, one thread of each host reads all files at the whole rate, because there may be fewer files than
    // ranks.
    std::optional<RateLimiter> whole;
    if (reading.rate_limiter != nullptr) whole.emplace(reading.rate_limiter->rate() * host.size());
    const auto throttle = [&](std::uint64_t bytes) {
        if (whole) whole->throttle(bytes, 0, reading.signal);
        reading.require_no_stop();
    };
    const formats::Manifest& manifest = *survey.manifest;
    const std::vector<std::size_t> files =
        files_of_reader(manifest, hosts_in_team(team, survey), team.host, host.rank(), whole ? 1 : host.size());
    std::vector<std::string> causes(files.size());
    parallel_for(files.size(), whole ? 1 : static_cast<std::size_t>(reading.threads), [&](std::size_t k) {
        const formats::ManifestFile& file = manifest.files[files[k]];
        try {
            compare(store.state(state_name(manifest)) / file.path, file, reading.how, throttle);
        } catch (const Error& error) {
            reading.require_no_stop();
            causes[k] = error.what();
        }
    });
    reading.require_no_stop();
    std::string list;
    for (std::size_t k = 0; k < files.size(); ++k)
        if (!causes[k].empty()) list += fmt::format("{} {}", files[k], causes[k]) + '\0';
    return list;
}

/// The faults that all ranks have found, and a note for each. Collective.
Faults gather_faults(const mpi::Comm& comm, const Team& team, const std::string& mine,
                     std::vector<std::string>& notes) {
    Faults faults;
    const std::vector<std::string> hosts = mpi::all_gather(comm, std::to_string(team.host));
    const std::vector<std::string> lists = mpi::all_gather(comm, mine);
    for (std::size_t rank = 0; rank < lists.size(); ++rank) {
        for (std::size_t at = 0; at < lists[rank].size();) {
            const std::string entry{lists[rank].c_str() + at};
            at += entry.size() + 1;
            const int owner = std::stoi(hosts[rank]);
            faults.emplace(std::stoull(entry), owner);
            notes.push_back(fmt::format("host '{}': {}", team.hosts[owner].name, entry.substr(entry.find(' ') + 1)));
        }
    }
    return faults;
}

/// Which files are intact, from the faults that each rank has found. Collective.
StoreCheck combine(const mpi::Comm& comm, const Team& team, const StoreSurvey& survey, const std::string& mine) {
    StoreCheck check;
    const Faults faults = gather_faults(comm, team, mine, check.notes);
    const formats::Manifest& manifest = *survey.manifest;
    const std::vector<int> here = hosts_in_team(team, survey);
    std::set<std::string> named;
    for (std::size_t f = 0; f < manifest.files.size(); ++f) {
        StoredFile file{manifest.files[f].path, manifest.files[f].size, {}};
        for (std::uint32_t k : manifest.files[f].hosts)
            if (here[k] >= 0 && !faults.contains({f, here[k]}))
                file.hosts.push_back(static_cast<std::uint32_t>(here[k]));
        std::ranges::sort(file.hosts);
        if (!file.hosts.empty()) {
            check.files.push_back(std::move(file));
            continue;
        }
        for (std::uint32_t t : manifest.files[f].tensors)
            if (named.insert(manifest.tensors[t]).second)
                check.lost_tensors.emplace_back(manifest.tensors[t], file.path.string());
        if (manifest.files[f].tensors.empty()) check.lost_tensors.emplace_back("", file.path.string());
    }
    return check;
}

}  // namespace

StoreCheck check_state(const mpi::Comm& comm, const mpi::Comm& host, const Team& team, const NodeStore& store,
                       const StoreSurvey& survey, int threads, RateLimiter* rate_limiter, CheckFiles how,
                       const std::atomic<int>* signal) {
    std::string mine;
    mpi::all_or_none(comm, [&] {
        mine = find_faults(host, team, store, survey, {threads, rate_limiter, how, signal, nullptr});
    });
    return combine(comm, team, survey, mine);
}

void CheckDuringMove::start() {
    if (running_) return;
    running_.emplace([this](const std::atomic<bool>* cancelled) {
        faults_ = find_faults(host_, team_, store_, survey_, {.threads = threads_, .cancelled = cancelled});
    });
}

const StoreCheck* CheckDuringMove::finish(const mpi::Comm& comm, const std::atomic<int>* signal) {
    if (!is_finished_) {
        is_finished_ = true;
        mpi::all_or_none(comm, [&] {
            start();
            running_->wait(signal);
            running_->finish();
        });
        found_ = combine(comm, team_, survey_, faults_);
        std::erase_if(found_.notes, [&](const std::string& note) {
            return std::ranges::find(known_.notes, note) != known_.notes.end();
        });
    }
    return found_.notes.empty() ? nullptr : &found_;
}

void CheckDuringMove::skip() {
    running_.reset();
    is_finished_ = true;
    found_ = {};
}

}  // namespace tpx::cli
