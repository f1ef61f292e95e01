// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "lib/cluster/gpu_pool.hpp"
#include "lib/cluster/policy.hpp"
#include "lib/cluster/results.hpp"
#include "lib/cluster/simulation_rules.hpp"

#include <functional>
#include <queue>
#include <set>
#include <span>
#include <vector>

namespace tpx {

/// A trace that is played: jobs come, policies give them GPUs, time goes from event to event. The first part is what
/// policies may ask and do. Everything is decided by the arguments: the same ones give the same results.
class Simulation {
public:
    /// The arguments must live as long as the simulation; jobs are in order of arrival.
    Simulation(const Cluster& cluster, std::span<const TraceJob> jobs, const SimulationRules& rules);

    Time now() const { return now_; }
    const Cluster& cluster() const { return cluster_; }
    const GpuPool& pool() const { return pool_; }
    /// What is free once all that is on its way back has come.
    const GpuPool& pool_after_releases() const { return soon_; }
    const TraceJob& job(int id) const { return jobs_[id]; }
    /// Jobs that have come and hold no GPU, in order of arrival.
    const std::vector<int>& waiting() const { return waiting_; }
    /// Jobs that hold GPUs and have steps to do, in order of arrival.
    const std::vector<int>& running() const { return running_; }
    /// What each of its GPUs comes with.
    GpuRequirements needs(int id) const { return {jobs_[id], states_[id].cpu_share}; }
    /// What a running job holds, with GPUs that do not train yet and without those that it is about to lose.
    const Grant& grant(int id) const { return states_[id].target; }
    /// True until a job that was started or changed trains as it was told.
    bool changing(int id) const { return states_[id].changing; }
    /// True while a job trains on with other GPUs than it was told to have.
    bool resizing(int id) const { return states_[id].changing && !states_[id].trains.empty(); }
    /// How many jobs are changing, and how many GPUs are about to be given back.
    int changes() const { return changes_; }
    /// Units of work, in millionths, that a job has left now.
    double remaining(int id) const;
    /// GPU-microseconds that a job has had until now.
    double attained(int id) const;
    /// When a job finishes if nothing is changed; never if it does not train.
    Time finish_of(int id) const { return states_[id].finish; }
    /// When a running job finishes if nothing is changed, also while it starts or is changed; never if it cannot train.
    Time expected_finish(int id) const;
    /// Training jobs by the time at which they finish if nothing is changed.
    const std::set<std::pair<Time, int>>& finishes() const { return finishes_; }
    /// True where jobs train on while they are changed; then a change gives GPUs or takes some, never both.
    bool background() const { return rules_.delays.background; }
    /// For how long a change stops a job at least.
    Time change_delay() const { return rules_.delays.change; }
    /// For how long the change of a running job to `to` would stop it.
    Time change_delay(int id, const Grant& to) const;
    /// The time from a job's last step on GPUs until these GPUs are free.
    Time release_delay() const { return rules_.delays.release; }
    /// The number of times that failures or scripted changes have stopped or changed jobs.
    int interventions() const { return interventions_; }
    /// From several GPUs to the first step with them.
    Time start_delay() const { return rules_.delays.start; }
    /// What policies decide at multiples of; 0: they decide whenever something happens.
    Time quantum() const { return rules_.quantum; }
    /// From the start of a waiting job with `grant` until its last step is done, nothing being changed.
    Time time_needed(int id, const Grant& grant) const;
    const JobResult& result(int id) const { return results_.jobs[id]; }
    /// GPUs for a waiting job within its tenant's quota; nothing where they do not fit now. With `cpu_share` of the
    /// cores that it asks for; a job that ran before keeps the share that it was first started with.
    std::optional<Grant> place(int id, int gpus, double cpu_share = 1) const;
    /// Whether the quota of its tenant lets a job have `gpus` GPUs.
    bool within_quota(int id, int gpus) const;
    /// GPUs of a host that is up; 0 of others.
    int usable(int host) const { return pool_.up(host) ? capacity_[host] : 0; }
    /// GPUs of all hosts that are up.
    int usable() const;

    /// Gives a waiting job what is free, for good with a share of the cores that it asks for. This and change() throw
    /// Error for fewer or more GPUs than the job may have.
    void start(int id, Grant grant, double cpu_share = 1);
    /// Gives a running job other GPUs or another plan. Where changes go on in the background, either more GPUs or
    /// fewer, and only when the last change is done.
    void change(int id, Grant grant);
    /// Takes all GPUs from a running job, which waits again and loses no work.
    void stop(int id);
    /// Records that a job that has just finished did so at `time`, when it is noticed.
    void record_finish(int id, Time time) { results_.jobs[id].finish = time; }
    /// Has the policy called at `time`, which is not in the past.
    void wake(Time time);

    /// Plays the trace to its end; `progress` is called now and then with the number of jobs that have finished.
    /// Jobs that nothing to come could make go on are left unfinished: `finish` stays never.
    SimulationResults run(Policy& policy, const std::function<void(int)>& progress = {});

private:
    enum class Kind { ready, shrunk, released, observed, down, up, scripted };
    struct Event {
        Time time;
        Kind kind;
        int subject;  // job, host, or number in the script
        std::uint32_t version;
        std::vector<GpuShare> parts;
        std::uint64_t order;
        bool operator>(const Event& other) const {
            return time != other.time ? time > other.time : order > other.order;
        }
    };
    struct State {
        Grant target;                   // what it was told to have
        std::vector<GpuShare> held;     // with GPUs that it is about to lose
        std::vector<GpuShare> leaving;  // of these, those that are given back soon
        std::vector<GpuShare> trains;
        int plan = 0;            // which it trains under
        Grant left;              // what it trained on last, while it does not; empty where a failure took its state
        std::vector<int> lost;   // hosts of `left` that failed since
        bool in_memory = false;  // until it trains again, the other hosts of `left` have its state; else it is stored
        bool stored = false;     // once it trains again, its state has gone through storage
        double unsaved = 0;      // work since its last checkpoint
        Time unsaved_time = 0;   // in which it did that
        double remaining = 0;
        double rate = 0;
        double cpu_share = 1;  // of the cores that it asks for
        Time since = 0;        // until when it is accounted for
        Time ready = 0;        // when it trains as it was told, if it is changing
        Time arrived = 0;      // when its state has reached the GPUs of `target`, if it is changing
        Time finish = never;
        std::uint32_t version = 0;
        std::uint32_t period = 0;  // in which it trains with the same GPUs at the same rate
        bool changing = false;
    };

    void check_limits(int id, const Grant& grant) const;
    void push(Time time, Kind kind, int subject, std::vector<GpuShare> parts = {});
    Time next_time() const;
    void happen(const Event& event);
    void arrive(int id);
    void finish(int id);
    void ready(int id);
    void make_ready(int id, Time delay);
    void change_behind(int id, std::vector<GpuShare> fewer);
    ChangeCost start_cost(int id, const Grant& grant) const;
    ChangeCost change_cost(int id, const Grant& to) const;
    void host_down(int host);
    void lose_host(int id, int host);
    void lose_source(int id, int host);
    void lose_state(int id, int host);
    void keep_state(int id, int plan);
    bool has_trained(int id) const { return results_.jobs[id].trained > 0; }
    void begin_training(int id);
    void halt(int id);
    bool depends_on(int id, int host) const;
    void count_unsaved(int id);
    bool is_stale(const Event& event) const;
    void scripted(const ScriptedEvent& event);
    void set_host_gpus(int host, int gpus);
    void take_back();
    void set_job(const ScriptedEvent& event);
    void set_cpus(int id, double cpus);
    void cut(int id, std::vector<GpuShare> parts);
    void observed(int id);
    static bool is_timer(Kind kind) { return kind < Kind::down; }
    void account(int id);
    void add_segments(int id);
    void train(int id, std::vector<GpuShare> parts, int plan);
    void idle(int id);
    void set_changing(int id, bool changing);
    void charge(int id, int gpus);
    void give_back(int id, std::vector<GpuShare> parts);
    void released(int id, const std::vector<GpuShare>& parts);
    void leave(int id);
    void happen_all();
    void call(Policy& policy);
    bool is_stuck() const;
    bool nothing_to_come() const;
    double steps_time(int id, double rate) const;
    Time round_after(Time time) const;

    const Cluster& cluster_;
    std::vector<TraceJob> own_jobs_;  // where a script changes them
    std::span<const TraceJob> jobs_;
    const SimulationRules& rules_;
    GpuPool pool_, soon_;
    std::vector<State> states_;
    std::vector<int> waiting_, running_;
    std::set<std::pair<Time, int>> finishes_;
    std::priority_queue<Event, std::vector<Event>, std::greater<>> events_;
    std::vector<int> used_;            // GPUs of each tenant's guaranteed jobs
    std::vector<int> down_;            // outages of each host
    std::vector<int> capacity_;        // GPUs of each host
    std::vector<int> short_hosts_;     // of which a script has just changed the GPUs
    Freedom freedom_ = Freedom::none;  // of the policy
    bool resizes_ = false;
    SimulationResults results_;
    Time now_ = 0;
    Time wake_ = never;  // the next call of the policy that is due
    int next_arrival_ = 0;
    int finished_ = 0;
    int changes_ = 0;
    int interventions_ = 0;
    int timers_ = 0;         // events that are no outages
    int idle_calls_ = 0;     // one after another that did nothing while nothing ran
    bool outdated_ = false;  // what the policy has computed
    bool dirty_ = false;     // something has happened that the policy does not know
    std::uint64_t order_ = 0;
    std::uint64_t actions_ = 0;
};

}  // namespace tpx
