// SPDX-License-Identifier: Apache-2.0
#include "cmd/profile/hardware_survey.hpp"

#include "cmd/output/output.hpp"
#include "cmd/output/progress.hpp"
#include "cmd/profile/hardware_visits.hpp"
#include "formats/files/profile/hardware_file.hpp"
#include "lib/core/host_name.hpp"
#include "lib/exec/topology.hpp"

#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <exception>
#include <functional>

namespace tpx::cli {
namespace {

using Clock = std::chrono::steady_clock;

constexpr std::uint64_t largest_file = std::uint64_t{2} << 30;
constexpr int most_visits = 5;
constexpr double shortest_turn = 0.3;    // seconds per disk
constexpr double shortest_round = 0.05;  // seconds per link

class Survey {
public:
    Survey(const mpi::Comm& comm, const SurveyOptions& options, Output& out);
    Hardware run();

private:
    struct Step {
        std::string what;
        double share;  // of the time of a visit, relative to other steps
        std::function<void(double seconds)> measure;
        bool may_fail = false;  // after a failure, the step is skipped and a note gives the cause
    };

    void add_steps();
    void take(Step& step, double seconds);
    void add_disk_steps();
    void add_gpu_steps();
    bool is_first() const { return places_.ranks_of[host_].front() == comm_.rank(); }
    void on_some_ranks(bool chosen, const std::function<void()>& body);
    void measure_own_disk(double seconds, bool together);
    void measure_own_gpus(double seconds);
    void measure_own_ipc(double seconds);
    void measure_all_nccl();
    HostHardware start_of_visit() const;
    bool another_visit(Clock::time_point start) const;
    Hardware assemble();

    const mpi::Comm& comm_;
    const SurveyOptions& options_;
    Output& out_;
    MachineTopology topology_;
    CudaGpus cuda_;
    int own_gpu_ = -1;
    JobHardware places_;
    int host_ = 0;
    std::vector<Step> steps_;
    Visits visits_;
};

std::string switch_of(const std::string& host, const std::vector<Host>& known) {
    if (known.empty())
        return slurm_switch(std::getenv("SLURM_TOPOLOGY_ADDR"), std::getenv("SLURM_TOPOLOGY_ADDR_PATTERN"));
    const auto found = std::ranges::find(known, host, &Host::name);
    const auto by_short_name = std::ranges::find(known, host.substr(0, host.find('.')), &Host::name);
    if (found != known.end()) return (*found).switch_group;
    return by_short_name == known.end() ? "" : (*by_short_name).switch_group;
}

Survey::Survey(const mpi::Comm& comm, const SurveyOptions& options, Output& out)
    : comm_{comm}, options_{options}, out_{out}, topology_{find_topology()} {
    RankHardware mine{
        .host = plain_host_name(host_name()), .switch_group = {}, .socket = topology_.own_socket, .gpu = {}};
    mine.switch_group = switch_of(mine.host, options.hosts);
    if (options.gpus) cuda_ = find_cuda_gpus();
    places_ = gather_job_hardware(comm, mine);
    host_ = places_.host_of[comm.rank()];
    if (!cuda_.gpus.empty()) {  // GPUs are assigned to the ranks of a host in turn
        const std::vector<int>& ranks = places_.ranks_of[host_];
        const auto place = std::ranges::find(ranks, comm.rank()) - ranks.begin();
        own_gpu_ = static_cast<int>(place % std::ssize(cuda_.gpus));
        mine.gpu = cuda_.gpus[own_gpu_].bus;
    }
    places_ = gather_job_hardware(comm, mine);
}

// Runs `body` on the ranks where `chosen` is true. All ranks sleep until it is done, and fail together.
void Survey::on_some_ranks(bool chosen, const std::function<void()>& body) {
    std::exception_ptr fault;
    try {
        if (chosen) body();
    } catch (...) {
        fault = std::current_exception();
    }
    wait_quietly(comm_);
    mpi::all_or_none(comm_, [&] {
        if (fault) std::rethrow_exception(fault);
    });
}

void Survey::measure_own_disk(double seconds, bool together) {
    HostHardware& mine = visits_.host.back();
    const DiskRates rates = measure_disk(options_.folder, seconds, largest_file);
    const auto faster = [](const MeasuredValue& a, const MeasuredValue& b) { return a.median >= b.median ? a : b; };
    const MeasuredValue read = faster(rates.direct_read, rates.buffered_read);
    const MeasuredValue write = faster(rates.direct_write, rates.buffered_write);
    if (together) {
        mine.shared_read = read;
        mine.shared_write = write;
        return;
    }
    mine.direct_read = rates.direct_read;
    mine.direct_write = rates.direct_write;
    mine.buffered_read = rates.buffered_read;
    mine.buffered_write = rates.buffered_write;
    mine.disk_both = rates.both;
    mine.disk_read = read;
    mine.disk_write = write;
}

void Survey::add_disk_steps() {
    // One host after another, unless there are so many hosts that turns would be too short.
    const int hosts = static_cast<int>(places_.hosts.size());
    const double own = hosts > 1 ? 3 : 4;
    const int turns = std::clamp(static_cast<int>(options_.seconds * 0.3 / most_visits / shortest_turn), 1, hosts);
    for (int turn = 0; turn < turns; ++turn)
        steps_.push_back(
            {fmt::format("disk of {}", places_.hosts[turn]), own / turns, [this, turn, turns](double seconds) {
                 on_some_ranks(is_first() && host_ % turns == turn, [&] { measure_own_disk(seconds, false); });
             }});
    if (hosts > 1)
        steps_.push_back({"disks of all hosts", 1, [this](double seconds) {
                              on_some_ranks(is_first(), [&] { measure_own_disk(seconds, true); });
                          }});
}

void Survey::add_gpu_steps() {
    std::uint64_t gpus = cuda_.gpus.size();
    mpi::all_max(comm_, std::span{&gpus, 1});
    if (gpus == 0) return;
    steps_.push_back({"GPUs", 2,
                      [this](double seconds) {
                          on_some_ranks(is_first() && !cuda_.gpus.empty(), [&] { measure_own_gpus(seconds); });
                      },
                      true});
    steps_.push_back({"GPUs of two processes", 0.5, [this](double seconds) { measure_own_ipc(seconds); }, true});
    if (places_.ranks_with_gpus().size() > 1)
        steps_.push_back({"NCCL", 2, [this](double) { measure_all_nccl(); }, true});
}

void Survey::add_steps() {
    if (options_.memory)
        steps_.push_back({"memory", 0.5, [this](double seconds) {
                              const std::size_t hosts = places_.hosts.size();
                              constexpr std::size_t few = 8;
                              const std::size_t turns = std::min(hosts, few);
                              for (std::size_t turn = 0; turn < turns; ++turn)
                                  on_some_ranks(is_first() && host_ % turns == turn, [&] {
                                      visits_.host.back().memory =
                                          measure_memory_copy(seconds / static_cast<double>(turns));
                                  });
                          }});
    if (options_.disk) add_disk_steps();
    const auto inside = [this](const char* what, bool across, std::vector<std::vector<LinkRates>> Visits::*kept) {
        const PairRound pairs = pairs_within_hosts(places_, across);
        std::vector<PairRound> rounds;
        constexpr std::size_t few = 8;  // pairs of more hosts measure at the same time
        if (pairs.size() > few)
            rounds.push_back(pairs);
        else
            for (const auto& pair : pairs) rounds.push_back({pair});
        if (!rounds.empty())
            steps_.push_back({what, 0.5, [this, rounds, kept](double seconds) {
                                  (visits_.*kept).push_back(measure_links(comm_, rounds, seconds));
                              }});
    };
    if (options_.links) {
        inside("ranks on a socket", false, &Visits::same_socket);
        inside("ranks on a host", true, &Visits::same_host);
    }
    if (options_.links && places_.hosts.size() > 1)
        steps_.push_back({"links", 4, [this](double seconds) {
                              const int most = static_cast<int>(seconds / shortest_round);
                              visits_.links.push_back(
                                  measure_links(comm_, rounds_of_all(places_.first_ranks(), most), seconds));
                          }});
    if (options_.gpus) add_gpu_steps();
}

void Survey::measure_own_gpus(double seconds) {
    HostHardware& mine = visits_.host.back();
    const int gpus = static_cast<int>(cuda_.gpus.size());
    const double slice = 0.5 * seconds / gpus;
    for (int gpu = 0; gpu < gpus; ++gpu) {
        const GpuRates rates = measure_gpu(gpu, slice);
        mine.gpus[gpu].to_device = rates.to_device;
        mine.gpus[gpu].from_device = rates.from_device;
        mine.gpus[gpu].copy = rates.copy;
    }
    if (gpus < 2) return;
    const std::vector<std::vector<MeasuredValue>> peers = measure_peers(gpus, 0.5 * seconds);
    for (int gpu = 0; gpu < gpus; ++gpu) mine.gpus[gpu].peers = peers[gpu];
}

// Measures between the first two ranks of each host, if both have a GPU; they may share one.
void Survey::measure_own_ipc(double seconds) {
    const std::vector<int>& ranks = places_.ranks_of[host_];
    const bool both = ranks.size() > 1 && !places_.ranks[ranks[0]].gpu.empty() && !places_.ranks[ranks[1]].gpu.empty();
    on_some_ranks(both && (comm_.rank() == ranks[0] || comm_.rank() == ranks[1]), [&] {
        const MeasuredValue rate = measure_ipc(comm_, ranks[0], ranks[1], own_gpu_, seconds);
        if (is_first()) visits_.host.back().ipc = rate;
    });
}

void Survey::measure_all_nccl() {
    visits_.nccl.push_back(measure_nccl(comm_, places_.ranks_with_gpus(), nccl_pairs(places_).pairs, own_gpu_));
}

// This host with what is known before measuring. If CUDA finds no GPUs, lists the GPUs on the PCI bus.
HostHardware Survey::start_of_visit() const {
    HostHardware mine;
    mine.name = places_.hosts[host_];
    mine.switch_group = places_.ranks[comm_.rank()].switch_group;
    mine.ranks = static_cast<int>(places_.ranks_of[host_].size());
    mine.sockets = topology_.sockets;
    mine.numa_nodes = topology_.numa_nodes;
    mine.cores = topology_.cores;
    mine.threads = topology_.threads;
    for (const CudaGpu& gpu : cuda_.gpus) {
        const auto pci = std::ranges::find(topology_.gpus, gpu.bus, &PciGpu::bus);
        GpuHardware& own = mine.gpus.emplace_back();
        own.name = gpu.name;
        own.bus = gpu.bus;
        own.nvlinks = gpu.nvlinks;
        own.numa_node = pci == topology_.gpus.end() ? -1 : (*pci).numa_node;
    }
    if (!cuda_.gpus.empty()) return mine;
    for (const PciGpu& pci : topology_.gpus) {
        GpuHardware& own = mine.gpus.emplace_back();
        own.name = "not used by CUDA";
        own.bus = pci.bus;
        own.numa_node = pci.numa_node;
    }
    return mine;
}

// Whether another visit will end in time if it takes as long as earlier visits.
bool Survey::another_visit(Clock::time_point start) const {
    const double passed = std::chrono::duration<double>(Clock::now() - start).count();
    const auto done = static_cast<double>(visits_.host.size());
    std::uint64_t goes = done < most_visits && passed * (done + 1) / done <= 1.05 * options_.seconds;
    mpi::all_min(comm_, std::span{&goes, 1});
    return goes != 0;
}

void Survey::take(Step& step, double seconds) {
    if (!step.measure) return;
    try {
        step.measure(seconds);
    } catch (const mpi::AgreedError& error) {
        if (!step.may_fail) throw;
        out_.note("{}: not measured: {}", step.what, error.what());
        step.measure = nullptr;
    }
}

Hardware Survey::run() {
    add_steps();
    double shares = 0;
    for (const Step& step : steps_) shares += step.share;
    Progress progress{out_, "measure", steps_.size() * most_visits, ProgressUnit::steps};
    const Clock::time_point start = Clock::now();
    std::uint64_t done = 0;
    do {
        visits_.host.push_back(start_of_visit());
        for (Step& step : steps_) {
            progress.rename(step.what);
            progress.update(done++);
            take(step, options_.seconds / most_visits * step.share / shares);
        }
    } while (another_visit(start));
    return assemble();
}

// The first rank of each host sends its results as the text of a hardware file.
Hardware Survey::assemble() {
    Hardware own;
    if (is_first()) own.hosts.push_back(combine_host(visits_.host));
    const std::vector<std::string> texts = mpi::gather(comm_, is_first() ? formats::hardware_text(own) : "");
    Hardware hardware;
    for (const std::string& text : texts)
        if (!text.empty()) hardware.hosts.push_back(formats::parse_hardware(text, "measured.toml").hosts.front());
    if (comm_.rank() == 0) {
        if (cuda_.gpus.empty() && !topology_.gpus.empty() && options_.gpus)
            out_.note("found GPUs, but did not measure them: {}", cuda_.reason);
        for (const HostHardware& host : hardware.hosts)
            if (!options_.hosts.empty() && host.switch_group.empty()) out_.note("{}: its switch is unknown", host.name);
        add_links(hardware, visits_, places_);
        add_nccl(hardware, visits_, places_);
    }
    return hardware;
}

}  // namespace

Hardware survey_hardware(const mpi::Comm& comm, const SurveyOptions& options, Output& out) {
    return Survey{comm, options, out}.run();
}

}  // namespace tpx::cli
