// SPDX-License-Identifier: Apache-2.0
#include "cmd/verify/check_masters.hpp"

#include "formats/convert/optimizer_pairs.hpp"
#include "lib/core/counted.hpp"
#include "lib/core/coverage.hpp"
#include "lib/core/error.hpp"
#include "lib/core/in_path.hpp"
#include "lib/exec/slabs.hpp"
#include "lib/exec/state_check.hpp"

#include <algorithm>
#include <map>
#include <set>

namespace tpx::cli {
namespace {

/// A master weight that does not round to its weight may differ from it by this fraction of the tensor's largest
/// weight: training frameworks may update master weights without rounding them to weights at once.
constexpr double near_fraction = 1.0 / (1 << 14);
/// At most one in `elements_per_near` elements, plus `extra_near` for small tensors, may differ like this.
constexpr std::uint64_t elements_per_near = 16;
constexpr std::uint64_t extra_near = 4;

/// The check of one state tensor of a parameter, and the tensor's role.
struct RoleCheck {
    StateCheck check;
    Role role = Role::master;
};

class MastersCheck {
public:
    MastersCheck(const mpi::Comm& comm, formats::Source& source, const ExecOptions& options)
        : comm_{comm}, source_{source}, options_{options} {}

    MastersReport run() {
        const Catalogue& catalogue = source_.checkpoint.catalogue;
        formats::OptimizerPairs pairs;
        mpi::all_or_none(comm_, [&] {
            in_path(catalogue.directory.string(), [&] {
                check_no_holes(catalogue);
                canonical_ = canonical(source_);
                pairs = pair_states(source_, canonical_);
            });
        });
        report_.faults = std::move(pairs.faults);
        report_.mismatches = report_.faults.size();
        report_.parameters = pairs.parameters.size();
        if (pairs.parameters.empty()) report_.faults.push_back("there is no optimizer state");
        note_stateless(pairs.stateless);
        std::vector<RoleCheck> jobs = jobs_of(pairs);
        std::vector<StateCheck> checks;
        for (const RoleCheck& job : jobs) checks.push_back(job.check);
        const auto facts = check_states(comm_, canonical_.side(), formats::paths(catalogue), checks, options_);
        for (std::size_t k = 0; k < jobs.size(); ++k) judge(jobs[k], facts[k]);
        if (!pairs.parameters.empty() && !recognized_)
            report_.faults.push_back("the optimizer state cannot be checked: its parameters are unknown");
        judge_steps(pairs.steps);
        if (alone_ > 0)
            report_.notes.push_back(fmt::format(
                "{} master weights were not compared: the checkpoint contains no weights for them", alone_));
        if (near_ > 0)
            report_.notes.push_back(fmt::format(
                "{} of {} master weights round to the value next to their weight; each differs by less than "
                "1/16384 of the largest weight of its tensor",
                near_, report_.elements));
        return std::move(report_);
    }

private:
    static bool is_number(const Tensor& tensor) { return is_real(tensor.dtype); }

    std::vector<RoleCheck> jobs_of(const formats::OptimizerPairs& pairs) {
        std::vector<RoleCheck> jobs;
        for (const formats::ParameterState& parameter : pairs.parameters) {
            for (const auto& [role, t] : parameter.states) {
                const Tensor& state = canonical_.tensors[t];
                if (!is_number(state)) continue;
                recognized_ |= parameter.weight >= 0 || role != Role::state;
                RoleCheck job{{.tensor = t, .weight = {}, .squares = role == Role::exp_avg_sq}, role};
                const bool beside = role == Role::master && parameter.weight >= 0;
                if (beside) {
                    const auto w = static_cast<std::uint32_t>(parameter.weight);
                    const Tensor& weight = canonical_.tensors[w];
                    if (weight.shape == state.shape && is_number(weight)) job.check.weight = w;
                }
                jobs.push_back(std::move(job));
            }
        }
        return jobs;
    }

    void judge(const RoleCheck& job, const StateFacts& facts) {
        if (job.role == Role::step) {
            steps_[facts.largest].push_back(job.check.tensor);
            return;
        }
        const bool master = job.role == Role::master;
        ++(!master ? report_.moments : job.check.weight ? report_.masters : alone_);
        if (job.check.weight) report_.elements += facts.elements;
        if (facts.not_finite > 0)
            return fault(job, facts, fmt::format("{} of {} elements are not finite", facts.not_finite, facts.elements));
        if (facts.negative > 0)
            return fault(job, facts,
                         fmt::format("{} among {}", counted(facts.negative, "negative square"), facts.elements));
        if (facts.misses == 0) return;
        const bool far = facts.farthest > near_fraction * facts.largest;
        if (!far && facts.misses <= facts.elements / elements_per_near + extra_near) {
            near_ += facts.misses;
            return;
        }
        fault(job, facts,
              fmt::format("{} of {} elements {} not round to the weight '{}'", facts.misses, facts.elements,
                          facts.misses == 1 ? "does" : "do", canonical_.stored_name(*job.check.weight)));
    }

    void fault(const RoleCheck& job, const StateFacts& facts, const std::string& cause) {
        const Tensor& tensor = canonical_.tensors[job.check.tensor];
        const Tuple<Index> index =
            finder_.stored_index(canonical_, job.check.tensor, index_of(tensor.shape, facts.first));
        const std::string against = facts.misses > 0 ? fmt::format(" against {:.6g}", facts.weight) : "";
        report_.faults.push_back(fmt::format("tensor '{}': {}, first at [{}]: {:.6g}{}",
                                             canonical_.stored_name(job.check.tensor), cause,
                                             fmt::join(index.begin(), index.end(), ", "), facts.value, against));
        ++report_.mismatches;
    }

    void note_stateless(const std::vector<std::string>& names) {
        const std::set<std::string> stored{names.begin(), names.end()};
        if (stored.empty() || report_.parameters == 0) return;
        report_.notes.push_back(fmt::format("without optimizer state: {} ('{}'{})", counted(stored.size(), "tensor"),
                                            *stored.begin(), stored.size() > 1 ? ", ..." : ""));
    }

    void judge_steps(const std::vector<std::string>& group_steps) {
        if (group_steps.size() > 1)
            report_.faults.push_back(
                fmt::format("groups of parameters are at different steps: {}", fmt::join(group_steps, ", ")));
        if (group_steps.size() == 1) report_.step = group_steps[0];
        if (steps_.size() == 1) report_.step = fmt::format("{}", steps_.begin()->first);
        const auto most = std::ranges::max_element(steps_, {}, [](const auto& step) { return step.second.size(); });
        for (auto step = steps_.begin(); step != steps_.end(); ++step) {
            if (step == most) continue;
            for (std::uint32_t t : step->second)
                report_.faults.push_back(fmt::format("tensor '{}': is at step {}, {} at {}", canonical_.stored_name(t),
                                                     step->first, counted(most->second.size(), "other"), most->first));
            report_.mismatches += step->second.size();
        }
    }

    const mpi::Comm& comm_;
    formats::Source& source_;
    const ExecOptions& options_;
    formats::CanonicalTensors canonical_;
    formats::PartFinder finder_;
    MastersReport report_;
    std::map<double, std::vector<std::uint32_t>> steps_;  // tensors by the step that they contain
    bool recognized_ = false;                             // whether the parameter of some state is known
    std::uint64_t near_ = 0;
    std::uint64_t alone_ = 0;  // master weights that have no weight to compare with
};

}  // namespace

MastersReport check_masters(const mpi::Comm& comm, formats::Source& source, const ExecOptions& options) {
    return MastersCheck{comm, source, options}.run();
}

}  // namespace tpx::cli
