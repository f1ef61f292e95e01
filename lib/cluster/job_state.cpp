// SPDX-License-Identifier: Apache-2.0
// Where the state of jobs is while they do not train, what it costs to go on from there, and what failures take of it.
#include "lib/cluster/simulation.hpp"

#include <algorithm>

namespace tpx {
namespace {

bool has_host(const Grant& grant, int host) { return std::ranges::count(grant.parts, host, &GpuShare::host) > 0; }

}  // namespace

ChangeCost Simulation::start_cost(int id, const Grant& grant) const {
    const State& state = states_[id];
    if (rules_.costs && state.in_memory) return rules_.costs->recover(jobs_[id], state.left, state.lost, grant);
    if (rules_.costs && has_trained(id)) return rules_.costs->resume(jobs_[id], state.left, grant);
    return {grant.gpus() == 1 ? rules_.delays.single : rules_.delays.start, 0};
}

// While the state of a job moves, a new change starts where the state was before, if all hosts there are up. Once the
// state has arrived, it starts on the new GPUs. Before its first step, a job has no state.
ChangeCost Simulation::change_cost(int id, const Grant& to) const {
    const State& state = states_[id];
    if (!rules_.costs) return {rules_.delays.change, 0};
    const auto is_down = [&](const GpuShare& part) { return down_[part.host] > 0; };
    const bool has_state = !state.trains.empty() || state.in_memory || has_trained(id);
    const bool is_there = now_ >= state.arrived || std::ranges::any_of(state.left.parts, is_down);
    if (!state.trains.empty() || (has_state && is_there && state.lost.empty()))
        return rules_.costs->change(jobs_[id], state.target, to);
    if (state.in_memory && state.lost.empty()) return rules_.costs->change(jobs_[id], state.left, to);
    return start_cost(id, to);
}

Time Simulation::change_delay(int id, const Grant& to) const { return change_cost(id, to).delay; }

// Adds what was done since the job was accounted for last. Checkpoints come after equal times of training.
void Simulation::count_unsaved(int id) {
    State& state = states_[id];
    const Time time = now_ - state.since;
    state.unsaved_time += time;
    if (state.unsaved_time < rules_.checkpoint) {
        state.unsaved += state.rate * static_cast<double>(time);
        return;
    }
    state.unsaved_time %= rules_.checkpoint;
    state.unsaved = state.rate * static_cast<double>(state.unsaved_time);
}

// Records where the state of a job is that is about to stop training under `plan`: on the GPUs that it trains on, even
// if the policy has already granted others.
void Simulation::keep_state(int id, int plan) {
    State& state = states_[id];
    if (state.trains.empty()) return;
    state.left = {state.trains, plan};
    state.lost.clear();
    state.in_memory = true;
}

// What is known of a job that did not train is out of date now.
void Simulation::begin_training(int id) {
    State& state = states_[id];
    if (!state.trains.empty()) return;
    if (state.stored) state.unsaved = 0, state.unsaved_time = 0;
    state.left = {};
    state.lost.clear();
    state.in_memory = false;
}

void Simulation::stop(int id) {
    account(id);
    State& state = states_[id];
    keep_state(id, state.target.plan);
    if (state.lost.empty()) {  // all state is written to storage
        state.in_memory = false;
        state.unsaved = 0, state.unsaved_time = 0;
    }
    halt(id);
}

// True of a job that does not train and goes on from the memory of the host.
bool Simulation::depends_on(int id, int host) const {
    const State& state = states_[id];
    return rules_.from_replicas && state.in_memory && state.trains.empty() && has_host(state.left, host) &&
           std::ranges::count(state.lost, host) == 0;
}

void Simulation::host_down(int host) {
    if (down_[host]++ > 0) return;
    pool_.set_up(host, false);
    soon_.set_up(host, false);
    const std::vector<int> running = running_;
    for (const int id : running)
        if (has_host(states_[id].target, host))
            lose_host(id, host);
        else if (depends_on(id, host))
            lose_source(id, host);
    for (const int id : waiting_)
        if (depends_on(id, host)) lose_state(id, host);
}

// Stops a job of which a host failed.
void Simulation::lose_host(int id, int host) {
    account(id);
    keep_state(id, states_[id].target.plan);
    halt(id);
    lose_state(id, host);
}

// A host failed from which a job that is about to train gets state. It starts again if no other host has that.
void Simulation::lose_source(int id, int host) {
    lose_state(id, host);
    if (!states_[id].in_memory) halt(id);
}

// Sets a job back to its last checkpoint, unless the hosts that are left have all its state.
void Simulation::lose_state(int id, int host) {
    ++interventions_;
    State& state = states_[id];
    if (state.in_memory && has_host(state.left, host) && std::ranges::count(state.lost, host) == 0)
        state.lost.push_back(host);
    if (state.in_memory && rules_.from_replicas && rules_.costs->survives(jobs_[id], state.left, state.lost)) return;
    state.remaining += state.unsaved;
    state.unsaved = 0, state.unsaved_time = 0;
    state.left = {};
    state.lost.clear();
    state.in_memory = false;
}

}  // namespace tpx
