// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "lib/cluster/simulation.hpp"

#include <span>
#include <vector>

namespace tpx {

/// All jobs that wait or run, in order of arrival.
std::vector<int> all_jobs(const Simulation& simulation);

/// Starts jobs of `order` with the GPUs that they ask for until one does not fit, which one is returned; order.size()
/// when all fit. Who is held up by a quota alone holds up nobody else.
std::size_t start_in_order(Simulation& simulation, const std::vector<int>& order);

/// Whether job `a` came before `b`, or at the same moment with a name before that of `b`, where numbers in names count
/// by value: "job-2" is before "job-10".
bool arrived_before(const TraceJob& a, const TraceJob& b);

/// The waiting jobs by priority, the highest first, then in order of arrival. It follows the waiting jobs of one
/// simulation from call to call.
class PriorityOrder {
public:
    /// Jobs that came at the same moment are in order of their numbers, or `by_name` as arrived_before() says.
    explicit PriorityOrder(bool by_name = false) : by_name_{by_name} {}

    /// The order now. The policy says by remove() which of these jobs it starts.
    const std::vector<int>& update(const Simulation& simulation);

    void remove(const Simulation& simulation, int id);

private:
    bool before(const Simulation& simulation, int a, int b) const;

    bool by_name_;
    std::vector<int> order_;
    int next_ = 0;  // the first job that has not come
};

/// Starts the waiting job if there is one only. Returns whether there is nothing else to do for policies that change
/// running jobs only to make room for waiting ones: false if several jobs wait or the one does not fit.
bool start_only_waiting(Simulation& simulation);

/// Starts the waiting job `id` with the GPUs that it requests. If it does not fit, stops running jobs of `after`, the
/// jobs later in the order, from the end if that makes room, and subtracts their GPUs from `later`. Returns false if
/// the job waits until stopped jobs have released their GPUs, so that no later job may start.
bool run_waiting(Simulation& simulation, int id, std::span<const int> after, int& later);

/// Runs jobs in `order`, which has all waiting and running ones, each with the GPUs that it asks for: where one does
/// not fit, running ones from the end of the order are stopped if that makes room. Who does not fit even then is passed
/// over. Running jobs keep their GPUs.
void run_in_order(Simulation& simulation, const std::vector<int>& order);

}  // namespace tpx
