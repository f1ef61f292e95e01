// SPDX-License-Identifier: Apache-2.0
#include "cmd/hold/hold_on_hosts.hpp"

#include "cmd/hold/choose_transport.hpp"
#include "cmd/hold/fill_hosts.hpp"
#include "cmd/hold/host_gpus.hpp"
#include "cmd/hold/hosts_plan.hpp"
#include "cmd/hold/hosts_report.hpp"
#include "cmd/hold/measured_links.hpp"
#include "cmd/hold/waiting_keeper.hpp"
#include "cmd/jobs/check_copies.hpp"
#include "cmd/jobs/held_store.hpp"
#include "cmd/jobs/keeper_client.hpp"
#include "cmd/jobs/run_on_ranks.hpp"
#include "formats/files/merged_stores.hpp"
#include "formats/files/profile/hardware_file.hpp"
#include "lib/core/error.hpp"
#include "lib/core/host_name.hpp"
#include "lib/core/in_path.hpp"
#include "lib/exec/local_socket.hpp"
#include "lib/exec/mpi_library.hpp"
#include "lib/exec/stop_signals.hpp"

#include <fmt/ranges.h>

#include <algorithm>
#include <random>
#include <utility>

namespace tpx::cli {
namespace {

namespace fs = std::filesystem;

std::string name_of_host(const mpi::Comm& comm) { return fmt::format("{} (rank {})", host_name(), comm.rank()); }

/// Throws an mpi::AgreedError (usage) if two processes share a host and its keepers. Collective.
void check_one_per_host(const mpi::Comm& comm) {
    std::string place;
    mpi::all_or_none(comm, [&] { place = fmt::format("{}\n{}", host_name(), socket_folder().string()); });
    const std::vector<std::string> places = mpi::all_gather(comm, place);
    for (std::size_t rank = 0; rank < places.size(); ++rank) {
        const auto first = std::ranges::find(places, places[rank]) - places.begin();
        if (static_cast<std::size_t>(first) != rank)
            throw mpi::AgreedError{usage_error("ranks {} and {} run on host {}; start one process per host", first,
                                               rank, places[rank].substr(0, places[rank].find('\n')))};
    }
}

/// The state that keepers of several hosts hold together, and the hosts that hold no part of it.
struct JoinedSource {
    const mpi::Comm& comm;
    const std::string& name;  ///< hold:NAME
    std::optional<HeldStore> store;
    std::vector<std::string> absent;  ///< hosts on which no keeper has the name
    std::vector<std::string> killed;  ///< hosts on which the keeper was killed

    /// Collective.
    void open() {
        mpi::all_or_none(comm, [&] { store.emplace(name, fmt::format("{}-{}", host_name(), comm.rank())); });
        const bool is_absent = !store->has_state() && !store->was_killed();
        absent = mpi::all_gather(comm, is_absent ? name_of_host(comm) : "");
        killed = mpi::all_gather(comm, store->was_killed() ? name_of_host(comm) : "");
        std::erase(absent, "");
        std::erase(killed, "");
        if (absent.size() + killed.size() == static_cast<std::size_t>(comm.size()))
            throw mpi::AgreedError{failure("{}: {}", name, missing())};
    }

    /// "no keeper has this name on th1 (rank 1)", or an empty text.
    std::string missing() const {
        std::string text;
        if (!absent.empty()) text += fmt::format("no keeper has this name on {}", fmt::join(absent, ", "));
        if (!absent.empty() && !killed.empty()) text += "; ";
        if (!killed.empty())
            text += fmt::format("the {} of {} {} killed", killed.size() == 1 ? "keeper" : "keepers",
                                fmt::join(killed, ", "), killed.size() == 1 ? "was" : "were");
        return text;
    }

    /// Runs `body`. In its errors, replaces `folder` by the name of the source, and appends `hint`. Collective.
    template <class Body>
    void with_source_name(const fs::path& folder, const std::string& hint, Body&& body) const {
        try {
            body();
        } catch (const mpi::AgreedError& error) {
            std::string text = error.what();
            for (std::size_t at = 0; (at = text.find(folder.string(), at)) != text.npos; at += name.size())
                text.replace(at, folder.string().size(), name);
            // Rank 0 reads the metadata of all hosts.
            if (const std::string rank = "rank 0: "; text.starts_with(rank + name)) text.erase(0, rank.size());
            throw mpi::AgreedError{Error{error.exit(), "{}{}{}", text, hint.empty() ? "" : "; ", hint}};
        }
    }
};

/// Computes the plan on each host, and throws unless all plans are equal. Adds the source files of this host to
/// `record`. Collective.
HostsPlan agreed_plan(const HoldOptions& options, const JoinedSource& source, ReadRecord& record) {
    const mpi::Comm& comm = source.comm;
    Mirror mirror{comm, source.store->folder(), comm.rank(), nullptr, formats::answer_file_question};
    record.seal();
    const std::vector<std::string> ranks = mpi::all_gather(comm, options.ranks);
    HostsPlan plan;
    source.with_source_name(mirror.folder(), source.missing(), [&] {
        mirror.read([&] {
            in_path(mirror.folder().string(),
                    [&] { plan = plan_hosts(options, mirror.folder(), mirror.files(), ranks); });
        });
        const formats::Conversion& conversion = plan.hold.job.conversion;
        if (conversion.dropped_copies.empty()) return;
        mirror.read_on_first(
            [&] { check_copies({}, conversion, plan.hold.job.opened.source.checkpoint.catalogue, {}); });
    });
    require_same(comm, claims_of(plan));
    return plan;
}

/// A random identifier of the new state, equal on all hosts. Collective.
std::string new_save(const mpi::Comm& comm) {
    std::random_device random;
    std::string save = fmt::format("{:08x}{:08x}{:08x}{:08x}", random(), random(), random(), random());
    mpi::broadcast(comm, save);
    return save;
}

class JoinedHold {
public:
    JoinedHold(const mpi::Comm& comm, const HoldOptions& options, std::optional<int> timeout, WaitingKeeper* keeper,
               Output& out)
        : comm_{comm}, options_{options}, timeout_{timeout}, keeper_{keeper}, out_{out} {}

    Exit run() {
        StopSignals signals;
        check_one_per_host(comm_);
        mpi::all_or_none(comm_, [&] { reserve(); });
        JoinedSource source{comm_, options_.checkpoint, {}, {}, {}};
        open_gpus();
        source.open();
        ReadRecord record;
        HostsPlan plan = agreed_plan(options_, source, record);
        place(plan);
        const HostShare share = share_of(plan, comm_.rank(), gpus_.places());
        mpi::all_or_none(comm_, [&] { check_memory(plan, share); });
        const ChosenTransport transport = choose_transport(comm_, options_, plan, gpus_);
        HostHeld own{share.bytes, plan.hold.room, 0, gpus_.place(), gpus_.needs()};
        note(plan, source);
        if (options_.dry_run) return report(plan, transport, own, 0);
        mpi::all_or_none(comm_, [&] { check_not_stopped(&signals.signal()); });
        const HeldFiles held = fill(plan, share, source, record, transport, signals);
        give(held, signals);
        signals.shield();
        return serve(plan, transport, held, own);
    }

private:
    void reserve() const {
        if (keeper_ != nullptr) return keeper_->reserve(options_.name);
        if (Fd other; connect_to(keeper_socket(options_.name), other) == ConnectResult::connected)
            throw name_taken_error(options_.name);
    }

    /// Opens the state of this host in GPU memory, before anything asks the keeper for a copy of it. Collective.
    void open_gpus() {
        mpi::all_or_none(comm_, [&] {
            std::string reason;
            gpus_.open_source(options_, reason);
            if (!reason.empty()) no_source_ = fmt::format("{}: {}", name_of_host(comm_), reason);
        });
        for (const std::string& reason : mpi::all_gather(comm_, no_source_))
            if (!reason.empty()) out_.note("copying through host memory instead: {}", reason);
    }

    /// Chooses the GPUs of all hosts and plans the rounds. Collective.
    void place(HostsPlan& plan) {
        std::string own;
        mpi::all_or_none(comm_, [&] {
            gpus_.choose(options_, plan.ranks[static_cast<std::size_t>(comm_.rank())],
                         plan.hold.job.conversion.draft.files);
            if (keeper_ != nullptr) gpus_.allocate(*keeper_);
            own = to_text(gpus_.places());
        });
        std::vector<GpuPlaces> places;
        for (const std::string& text : mpi::all_gather(comm_, own)) places.push_back(parse_gpu_places(text));
        const std::vector<std::string> names = mpi::all_gather(comm_, host_name());
        mpi::all_or_none(comm_, [&] {
            HostRates rates;
            if (!options_.hardware.empty()) rates = rates_between(formats::read_hardware(options_.hardware), names);
            place_on_gpus(plan, places, rates);
        });
        require_same(comm_, claims_of(plan));
    }

    /// Throws Error unless this host has memory for its state, for the messages of a round, and for the GPU
    /// state that it sends through host memory.
    void check_memory(const HostsPlan& plan, const HostShare& share) const {
        HoldJob own{.job = {}, .bytes = share.bytes, .room = plan.hold.room, .limit = plan.hold.limit};
        own.saved = share.saved;
        for (const Endpoint& endpoint : endpoints_of(plan.rounds)) {
            if (endpoint.host != comm_.rank()) continue;
            const StagingNeed staging = staging_of(plan.rounds, endpoint);  // that of a GPU may be pinned host memory
            own.bytes += staging.sent + staging.received;
            if (staging.sent > 0 && endpoint.gpu >= 0) gpus_.check_room_for_sending(endpoint.gpu);
        }
        for (const std::uint32_t file : plan.files_sent({comm_.rank(), -1}))
            if (const auto* const segment =
                    gpus_.segment_of(plan.hold.job.opened.source.checkpoint.catalogue.path(file)))
                own.bytes += segment->size;  // read from the GPU before it is sent
        check_fits(own, options_.checkpoint);
    }

    /// Collective.
    void note(const HostsPlan& plan, const JoinedSource& source) const {
        for (const std::string& note : plan.hold.job.conversion.notes) out_.note("{}", note);
        if (!source.missing().empty())
            out_.note("{}: {}; ranks there get their state from other hosts", options_.checkpoint, source.missing());
        std::string text = gpus_.indirect_text();
        if (!text.empty()) text = fmt::format("{}: {}", name_of_host(comm_), text);
        for (const std::string& note : mpi::all_gather(comm_, text))
            if (!note.empty()) out_.note("{}", note);
    }

    /// Reads the state of this host's ranks into memory.
    HeldFiles fill(const HostsPlan& plan, const HostShare& share, const JoinedSource& source, const ReadRecord& record,
                   const ChosenTransport& transport, const StopSignals& signals) {
        HeldFiles held;
        const fs::path& folder = source.store->folder();
        source.with_source_name(folder, "", [&] {
            held = fill_host({comm_, options_, folder, gpus_, transport.get(), &signals.signal(), out_}, plan, share);
            mpi::all_or_none(comm_, [&] {
                for (const auto& [path, file] : record.files()) record.check(path);
            });
        });
        if (gpus_.source() != nullptr) gpus_.source()->stop_reader();
        held.save = new_save(comm_);
        return held;
    }

    /// Gives the state to this host's keeper, which does not serve requests yet.
    void give(const HeldFiles& held, const StopSignals& signals) {
        mpi::all_or_none(comm_, [&] {
            if (!held.parts.empty()) keeper_->give(held);
            check_not_stopped(&signals.signal());
        });
    }

    /// Starts service on all hosts or, if one fails, on none.
    Exit serve(const HostsPlan& plan, const ChosenTransport& transport, const HeldFiles& held, HostHeld& own) {
        try {
            mpi::all_or_none(comm_, [&] {
                if (!held.parts.empty()) own.process = keeper_->serve();
            });
            return report(plan, transport, own, held.seconds);
        } catch (const mpi::AgreedError&) {
            keeper_->end();
            throw;
        }
    }

    Exit report(const HostsPlan& plan, const ChosenTransport& transport, const HostHeld& own, double seconds) {
        report_hosts(comm_, {options_, timeout_, plan, transport, seconds}, own, out_);
        return Exit::success;
    }

    const mpi::Comm& comm_;
    const HoldOptions& options_;
    std::optional<int> timeout_;
    WaitingKeeper* keeper_;  // null: --dry-run
    Output& out_;
    HostGpus gpus_;
    std::string no_source_;  // why the state in GPU memory could not be opened; empty: it is open, or there is none
};

}  // namespace

bool is_on_hosts(const HoldOptions& options) {
    return is_held(options.checkpoint) && mpi::started_as_rank() && mpi::launched_ranks() != 1;
}

void hold_on_hosts(const HoldOptions& options, std::optional<int> timeout, Output& out) {
    if (options.foreground) throw usage_error("--foreground: cannot be used with several processes");
    std::optional<WaitingKeeper> keeper;
    if (!options.dry_run) keeper.emplace(KeeperSettings{options.name, timeout, false});
    run_on_ranks([&](const mpi::Comm& comm) {
        return with_patience(comm, options.patience, [&](Patience&) {
            return JoinedHold{comm, options, timeout, keeper ? &*keeper : nullptr, out}.run();
        });
    });
}

}  // namespace tpx::cli
