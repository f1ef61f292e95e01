// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "lib/cluster/job.hpp"

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

namespace tpx {

/// What comes with each GPU of a job, and which kind it must be.
struct GpuRequirements {
    GpuRequirements(const TraceJob& job,
                    double cpu_share = 1)  // NOLINT(google-explicit-constructor): a job is what needs
        : kind{job.kind}, kinds{job.kinds}, cpus{job.cpus * cpu_share}, memory{job.memory} {}

    int kind;
    std::span<const int> kinds;  ///< of these the first that has room, unless one is said; empty: any
    double cpus;                 ///< cores
    double memory;               ///< bytes of the host
};

/// What is free on the hosts of a cluster.
class GpuPool {
public:
    explicit GpuPool(const Cluster& cluster);

    /// GPUs of a kind, or of all, that nobody holds on hosts that are up.
    int free(int kind = any) const;
    int free_on(int host) const { return hosts_[host].up ? hosts_[host].gpus : 0; }
    bool up(int host) const { return hosts_[host].up; }

    /// GPUs for who has such `needs`, all of one kind: on one host if any has room, the one with least; else on as few
    /// hosts as can be. Nothing where they do not fit now.
    std::optional<Grant> place(const GpuRequirements& needs, int gpus) const;
    /// Whether all of `parts` are free now.
    bool fits(const GpuRequirements& needs, std::span<const GpuShare> parts) const;
    /// The same as place(), beside what it has in `held`: hosts of `held` come first.
    std::optional<Grant> place_more(const GpuRequirements& needs, const Grant& held, int more) const;

    /// The grant with `gpus` of `held`'s GPUs: hosts with few of them are left first.
    static Grant part_of(const Grant& held, int gpus);

    void take(const GpuRequirements& needs, std::span<const GpuShare> parts);
    void give(const GpuRequirements& needs, std::span<const GpuShare> parts);
    /// GPUs of a host that is down are not free; what is given back there waits for the repair.
    void set_up(int host, bool up);
    /// Withholds `gpus` GPUs of a host: at once those that are free, others when settle() finds them free.
    void withhold(int host, int gpus);
    void settle(int host);
    /// GPUs that are withheld only once they are free.
    int owed(int host) const { return hosts_[host].to_withhold - hosts_[host].withheld; }
    /// Whoever holds `parts` has `more` further cores with each of these GPUs.
    void add_cpus(std::span<const GpuShare> parts, double more);

private:
    struct Host {
        int kind;
        int gpus;
        double cpus;
        double memory;
        bool counts_cpus;
        bool counts_memory;
        bool up = true;
        int to_withhold = 0;
        int withheld = 0;
    };

    // Which hosts of a kind have how many free GPUs: one bit for each host, words in order, rows by kind and number.
    // Only if hosts have at most `most_indexed` GPUs.
    struct Index {
        int most = 0;  // GPUs of a host
        std::size_t words = 0;
        std::vector<std::uint64_t> bits;
    };
    static constexpr int most_indexed = 256;

    int room(const Host& host, const GpuRequirements& needs) const;
    void count(int host, bool in);
    void move(int host, int more);
    std::span<const std::uint64_t> hosts_with(int kind, int gpus) const;
    std::optional<Grant> place_by_index(int gpus, int kind) const;
    std::optional<Grant> place_on_kind(const GpuRequirements& needs, int gpus, int kind) const;

    std::vector<Host> hosts_;
    Index index_;
    std::vector<int> free_;  // by kind
    int total_ = 0;
};

/// The parts of both, hosts in order.
std::vector<GpuShare> sum_of(std::span<const GpuShare> a, std::span<const GpuShare> b);
/// What `a` has and `b` has not.
std::vector<GpuShare> difference_of(std::span<const GpuShare> a, std::span<const GpuShare> b);

}  // namespace tpx
