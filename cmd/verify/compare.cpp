// SPDX-License-Identifier: Apache-2.0
#include "cmd/verify/compare.hpp"

#include "cmd/verify/compare_blocks.hpp"
#include "cmd/verify/compare_names.hpp"
#include "cmd/verify/compare_values.hpp"
#include "cmd/verify/compared_checkpoint.hpp"
#include "cmd/verify/ignored_roles.hpp"
#include "cmd/verify/tensors_in_values.hpp"
#include "formats/convert/missing_weights.hpp"
#include "lib/core/error.hpp"
#include "lib/exec/difference.hpp"

#include <algorithm>
#include <map>
#include <set>
#include <string_view>

namespace tpx::cli {
namespace {

/// The canonical tensor that `name` equals in a checkpoint that does not store it: a tied output layer equals the
/// embedding, and the values of a layer may equal its keys. Empty: none.
std::string tied_to(const formats::Source& source, const std::string& name) {
    if (!source.reading.family || !source.reading.complete) return "";
    const std::size_t begin = name.rfind('.') + 1;  // after the layer number
    const auto found = source.reading.family->tensors.find(name.substr(begin));
    if (found == source.reading.family->tensors.end() || found->second.tie.empty()) return "";
    return name.substr(0, begin) + found->second.tie;
}

std::string dtype_cause(const Tensor& a, const Tensor& b) {
    return fmt::format("dtype {} against {} (--dtype compares values)", name(a.dtype), name(b.dtype));
}

class Comparer {
public:
    Comparer(const mpi::Comm& comm, ComparedCheckpoint a, ComparedCheckpoint b, const CompareOptions& options)
        : comm_{comm}, a_{std::move(a)}, b_{std::move(b)}, options_{options} {}

    Comparison run() {
        result_.state_a = a_.digested.state;
        result_.state_b = b_.digested.state;
        pair_masters();
        const std::map<std::string, std::string> same_stored = pairs_by_stored_name(a_, b_);
        std::set<std::string> paired;
        for (const auto& [name, number] : a_.numbers) {
            if (is_beside_weight(a_, number, name)) continue;
            const auto pair = same_stored.find(name);
            if (pair != same_stored.end()) {
                paired.insert(pair->second);
                // Steps that are compared here are not compared again as settings of groups.
                const auto number_in_b = b_.numbers.at(pair->second);
                if (a_.digested.canonical.roles[number] == Role::step) b_.roles.insert(Role::step);
                if (b_.digested.canonical.roles[number_in_b] == Role::step) a_.roles.insert(Role::step);
                compare_tensor(number, number_in_b);
            } else if (b_.numbers.contains(name)) {
                compare_tensor(as_kept(a_, name), as_kept(b_, name));
            } else if (!only_masters_.contains(name)) {
                missing(a_, b_, number, name);
            }
        }
        for (const auto& [name, number] : b_.numbers) {
            if (paired.contains(name) || a_.numbers.contains(name)) continue;
            if (!only_masters_.contains(name) && !is_beside_weight(b_, number, name)) missing(b_, a_, number, name);
        }
        for (const auto& [name, master] : only_masters_) compare_rounded(name);
        add_lost_weights(a_, b_);
        add_lost_weights(b_, a_);
        add_damage();
        compare_blocks(comm_, a_, b_, options_.exec, result_);
        add_notes();
        for (const ComparedCheckpoint* member : {&a_, &b_})
            for (const auto& [role, count] : member->skipped) result_.ignored[role] += count;
        if (!options_.weights_only)
            compare_values(
                comm_, a_, b_, [this](const std::string& role) { return is_ignored(role, options_); }, result_);
        match_tensors_in_values(a_, b_, result_);
        return std::move(result_);
    }

private:
    /// Whether only weights are compared and `name` is a master whose weight `member` also has.
    bool is_beside_weight(const ComparedCheckpoint& member, std::size_t number, const std::string& name) {
        if (!options_.weights_only || member.digested.canonical.roles[number] != Role::master) return false;
        const bool beside = std::ranges::any_of(
            weights_of_master(name), [&](const std::string& weight) { return member.numbers.contains(weight); });
        if (beside) ++result_.ignored["master"];
        return beside;
    }

    void add_damage() {
        for (const ComparedCheckpoint* member : {&a_, &b_}) {
            const char side = member == &a_ ? 'A' : 'B';
            for (const std::string& line : member->damaged)
                result_.differences.push_back({.role = "file",
                                               .name = line,
                                               .canonical = "",
                                               .a = "",
                                               .b = "",
                                               .cause = fmt::format("damaged in {}", side),
                                               .value = true});
        }
    }

    void add_notes() {
        if (!masters_.empty())
            result_.notes.push_back(fmt::format(
                "compared {} fp32 weights with the master weights of the other side, which also has half-precision "
                "weights (--dtype compares those; --masters checks that they are the rounded master weights)",
                masters_.size()));
        if (!only_masters_.empty())
            result_.notes.push_back(
                fmt::format("compared {} weights of one side with the rounded master weights of the other, which "
                            "stores only masters",
                            only_masters_.size()));
        if (redundant_ > 0)
            result_.notes.push_back(
                fmt::format("compared {} master weights of one side with fp32 weights of the other", redundant_));
    }

    void differ(const ComparedCheckpoint& member, std::size_t tensor, const std::string& a, const std::string& b,
                std::string cause, char lacking = 0) {
        const std::string& stored = member.digested.canonical.stored_name(tensor);
        const std::string& canonical = member.digested.canonical.tensors[tensor].name;
        result_.differences.push_back({.role = std::string{name(member.digested.canonical.roles[tensor])},
                                       .name = stored,
                                       .canonical = is_part(member, tensor) ? canonical : "",
                                       .a = a,
                                       .b = b,
                                       .cause = std::move(cause),
                                       .value = false,
                                       .lacking = lacking});
    }

    /// Whether the stored tensor contains several canonical tensors, so that its name does not identify this one.
    static bool is_part(const ComparedCheckpoint& member, std::size_t tensor) {
        const formats::CanonicalTensors& canonical = member.digested.canonical;
        const auto same = [&](std::size_t other) {
            return other < canonical.stored.size() && canonical.stored[other] == canonical.stored[tensor];
        };
        return same(tensor + 1) || (tensor > 0 && same(tensor - 1));
    }

    void missing(const ComparedCheckpoint& has, const ComparedCheckpoint& lacks, std::size_t number,
                 const std::string& name) {
        const Role role = has.digested.canonical.roles[number];
        const std::string& stored = has.digested.canonical.stored_name(number);
        if (role == Role::copy) return judge_copy(has, number, name);
        if (names_of_masters_.contains(name) || has_blocks(lacks, stored)) return;
        const std::string tie = tied_to(*has.source, name);
        const auto tied = has.numbers.find(tie);
        if (!tie.empty() && tied != has.numbers.end() &&
            has.digested.digests[tied->second] == has.digested.digests[number])
            return;
        if (role == Role::step && !lacks.roles.contains(Role::step))
            return;  // the settings contain the step; see compare_steps
        if (role == Role::master && is_weight_of(has, lacks, number, name)) return;
        const char side = &lacks == &a_ ? 'A' : 'B';
        differ(has, number, side == 'A' ? "" : stored, side == 'B' ? "" : stored, fmt::format("{} lacks it", side),
               side);
        if (!lacks.roles.contains(role)) result_.differences.back().absent = tpx::name(role);
    }

    /// Whether `lacks` stores master `name` of `has` as a weight with equal dtype and values: fp32 weights need no
    /// masters.
    bool is_weight_of(const ComparedCheckpoint& has, const ComparedCheckpoint& lacks, std::size_t number,
                      const std::string& name) {
        for (const std::string& weight : weights_of_master(name)) {
            const auto found = lacks.numbers.find(weight);
            if (found == lacks.numbers.end()) continue;
            const Tensor& full = lacks.digested.canonical.tensors[found->second];
            if (full.dtype != has.digested.canonical.tensors[number].dtype) continue;
            if (lacks.digested.digests[found->second] != has.digested.digests[number]) continue;
            ++result_.compared;
            ++redundant_;
            return true;
        }
        return false;
    }

    /// Checks that a second copy of a tensor, which only `has` stores, equals its original.
    void judge_copy(const ComparedCheckpoint& has, std::size_t number, const std::string& name) {
        const std::size_t original = has.numbers.at(std::string{formats::original_name(name)});
        ++result_.compared;
        if (has.digested.digests[number] == has.digested.digests[original]) return;
        const std::string& stored = has.digested.canonical.stored_name(number);
        const bool in_a = &has == &a_;
        differ(has, number, in_a ? stored : "", in_a ? "" : stored,
               fmt::format("differs from '{}', of which it should be a copy",
                           has.digested.canonical.stored_name(original)));
    }

    /// Selects the weights that are compared with masters of the other side: fp32 weights, if the other side has
    /// half-precision weights and masters; or weights of any dtype, with the rounded masters, if the other side's
    /// format stores only masters. Must run before anything is compared.
    void pair_masters() {
        for (const auto& [half, full] : {std::pair{&a_, &b_}, std::pair{&b_, &a_}}) {
            for (const auto& [name, number] : full->numbers) {
                if (full->digested.canonical.roles[number] != Role::weight) continue;
                const std::string master = master_of(name, *half);
                const bool both = half->numbers.contains(name);
                const bool paired = both ? !options_.cast && is_rounded(name, *half, *full)
                                         : formats::stores_masters_only(half->source->checkpoint);
                if (master.empty() || !paired) continue;
                (both ? masters_ : only_masters_).emplace(name, master);
                if (!full->roles.contains(Role::master)) names_of_masters_.insert(master);
            }
        }
    }

    /// Reports the weights that `member` should store but lacks, if the other side stores only masters.
    void add_lost_weights(const ComparedCheckpoint& member, const ComparedCheckpoint& other) {
        const char side = &member == &a_ ? 'A' : 'B';
        for (const std::string& master : masters_without_weight(member, other))
            differ(member, member.numbers.at(master), side == 'A' ? "" : master, side == 'B' ? "" : master,
                   fmt::format("{} lacks its weight", side), side);
    }

    /// Checks that weight `name` of one side equals the rounded master of the other, which has no such weight.
    void compare_rounded(const std::string& name) {
        const bool in_a = a_.numbers.contains(name);
        const ComparedCheckpoint& has = in_a ? a_ : b_;
        const ComparedCheckpoint& lacks = in_a ? b_ : a_;
        const std::size_t weight = has.numbers.at(name);
        const std::size_t master = lacks.numbers.at(only_masters_.at(name));
        const Tensor& rounded = has.digested.canonical.tensors[weight];
        const Tensor& full = lacks.digested.canonical.tensors[master];
        ++result_.compared;
        result_.bytes += has.digested.digests[weight].bytes;
        const std::string& stored = has.digested.canonical.stored_name(weight);
        const std::string& other = lacks.digested.canonical.stored_name(master);
        const auto fault = [&](std::string cause) {
            differ(has, weight, in_a ? stored : other, in_a ? other : stored, std::move(cause));
        };
        if (full.shape != rounded.shape)
            return fault(fmt::format("shape {} against {}", to_string(rounded.shape), to_string(full.shape)));
        const auto cast = full.dtype == rounded.dtype ? std::nullopt : std::optional{rounded.dtype};
        const auto difference = first_difference(comm_, 0, one_tensor(lacks, master).stored(),
                                                 one_tensor(has, weight).stored(), options_.exec, cast);
        if (difference)
            fault(fmt::format("differs first at {} from its rounded master '{}': {} against {}",
                              at(has, weight, *difference), other, difference->second, difference->first));
    }

    /// The number of weight `name` in `member`, or of its master if the master is compared instead.
    std::size_t as_kept(const ComparedCheckpoint& member, const std::string& name) const {
        const auto master = masters_.find(name);
        const auto kept = master == masters_.end() ? member.numbers.end() : member.numbers.find(master->second);
        return kept == member.numbers.end() ? member.numbers.at(name) : kept->second;
    }

    void compare_tensor(std::size_t a, std::size_t b) {
        const Tensor& first = a_.digested.canonical.tensors[a];
        const Tensor& second = b_.digested.canonical.tensors[b];
        const std::string& stored = a_.digested.canonical.stored_name(a);
        const std::string& other = b_.digested.canonical.stored_name(b);
        ++result_.compared;
        result_.bytes += a_.digested.digests[a].bytes;
        if (first.shape != second.shape)
            return differ(a_, a, stored, other,
                          fmt::format("shape {} against {}", to_string(first.shape), to_string(second.shape)));
        if (first.dtype != second.dtype && !options_.cast)
            return differ(a_, a, stored, other, dtype_cause(first, second));
        if (first.dtype == second.dtype && a_.digested.digests[a] == b_.digested.digests[b]) return;
        const OneTensor one = one_tensor(a_, a);
        const OneTensor two = one_tensor(b_, b);
        const auto cast = first.dtype == second.dtype ? std::nullopt : std::optional{second.dtype};
        const auto difference = first_difference(comm_, 0, one.stored(), two.stored(), options_.exec, cast);
        if (!difference) return;
        const std::string where = other == stored ? "" : fmt::format(" ('{}' in B)", other);
        differ(a_, a, stored, other,
               fmt::format("differs first at {}: {} against {}{}", at(a_, a, *difference), difference->first,
                           difference->second, where));
    }

    /// The index of a difference in the stored tensor.
    std::string at(const ComparedCheckpoint& member, std::size_t tensor, const ElementDifference& difference) {
        const Tuple<Index> index = finder_.stored_index(member.digested.canonical, tensor, difference.index);
        return fmt::format("[{}]", fmt::join(index.begin(), index.end(), ", "));
    }

    const mpi::Comm& comm_;
    ComparedCheckpoint a_;
    ComparedCheckpoint b_;
    const CompareOptions& options_;
    Comparison result_;
    formats::PartFinder finder_;
    std::map<std::string, std::string> masters_;       // that weights are compared with, by weight name
    std::map<std::string, std::string> only_masters_;  // the same for weights that one side lacks
    std::set<std::string> names_of_masters_;           // masters that are compared with nothing else
    std::uint64_t redundant_ = 0;                      // number of masters that equal weights of the other side
};

}  // namespace

Comparison compare(const mpi::Comm& comm, formats::Source& a, formats::Source& b, const CompareOptions& options) {
    make_names_comparable(a, b);
    const auto skipped = [&](const std::string& role) { return is_ignored(role, options); };
    return Comparer{comm, read_compared_checkpoint(comm, a, skipped, options.exec),
                    read_compared_checkpoint(comm, b, skipped, options.exec), options}
        .run();
}

}  // namespace tpx::cli
