// SPDX-License-Identifier: Apache-2.0
#include "cmd/compare.hpp"

#include "cmd/compare_members.hpp"
#include "lib/core/error.hpp"
#include "lib/exec/difference.hpp"

#include <algorithm>
#include <map>
#include <set>
#include <string_view>

namespace tpx::cli {
namespace {

/// The canonical tensor that `name` is when a checkpoint does not store it: a tied output layer is the embedding.
std::string tied_to(const formats::Source& source, const std::string& name) {
    if (!source.reading.family || !source.reading.complete) return "";
    const auto found = source.reading.family->tensors.find(name);
    return found == source.reading.family->tensors.end() ? "" : found->second.tie;
}

std::string dtype_cause(const Tensor& a, const Tensor& b) {
    return fmt::format("dtype {} against {} (--dtype compares values)", name(a.dtype), name(b.dtype));
}

/// One tensor of a checkpoint as a side of its own.
struct Alone {
    std::vector<Tensor> tensors;
    std::vector<Piece> pieces;
    std::vector<SourceFile> files;

    Stored stored() const { return {{tensors, pieces}, files}; }
};

Alone alone(const Member& member, std::size_t tensor) {
    const formats::Canonical& canonical = member.digested.canonical;
    Alone one{{canonical.tensors[tensor]}, {}, formats::paths(member.source->checkpoint.catalogue)};
    for (const Piece& piece : canonical.pieces) {
        if (piece.tensor != tensor) continue;
        one.pieces.push_back(piece);
        one.pieces.back().tensor = 0;
    }
    return one;
}

class Comparer {
public:
    Comparer(const mpi::Comm& comm, Member a, Member b, bool cast)
        : comm_{comm}, a_{std::move(a)}, b_{std::move(b)}, cast_{cast} {}

    Comparison run() {
        result_.state_a = a_.digested.state;
        result_.state_b = b_.digested.state;
        pair_masters();
        for (const auto& [name, number] : a_.numbers) {
            if (b_.numbers.contains(name))
                compare_tensor(as_kept(a_, name), as_kept(b_, name));
            else if (!only_masters_.contains(name))
                missing(a_, b_, number, name, "B");
        }
        for (const auto& [name, number] : b_.numbers) {
            if (!a_.numbers.contains(name) && !only_masters_.contains(name)) missing(b_, a_, number, name, "A");
        }
        for (const auto& [name, master] : only_masters_) compare_rounded(name);
        for (const Member* member : {&a_, &b_}) {
            for (const formats::Quantised& tensor : member->source->checkpoint.quantised)
                differ(tensor.name, member == &a_ ? tensor.name : "", member == &b_ ? tensor.name : "",
                       fmt::format("is quantised ({}) and cannot be compared", tensor.type));
        }
        for (const std::string& line : a_.damaged) result_.notes.push_back("damaged in A: " + line);
        for (const std::string& line : b_.damaged) result_.notes.push_back("damaged in B: " + line);
        if (!masters_.empty())
            result_.notes.push_back(fmt::format(
                "compared as master weights: {} weights that one side has in half precision beside their masters, the "
                "other in full (--dtype compares those, --masters of the first whether they are what masters round to)",
                masters_.size()));
        if (!only_masters_.empty())
            result_.notes.push_back(
                fmt::format("{} weights of one side are compared with what masters round to, which the other has alone",
                            only_masters_.size()));
        for (const auto& [role, count] : not_compared_)
            result_.notes.push_back(
                fmt::format("not compared: {} tensors of role {}, which only one side has", count, role));
        return std::move(result_);
    }

private:
    void differ(const std::string& tensor, const std::string& a, const std::string& b, std::string cause) {
        result_.differences.push_back({tensor, a, b, std::move(cause)});
    }

    void missing(const Member& has, const Member& lacks, std::size_t number, const std::string& name,
                 std::string_view side) {
        const std::string& role = has.digested.canonical.roles[number];
        const std::string& stored = has.digested.canonical.stored_names[number];
        if (role == "copy") return judge_copy(has, number, name);
        if (names_of_masters_.contains(name)) return;
        const std::string tie = tied_to(*has.source, name);
        const auto tied = has.numbers.find(tie);
        if (!tie.empty() && tied != has.numbers.end() &&
            has.digested.digests[tied->second] == has.digested.digests[number])
            return;
        if (role == "extra" || !lacks.roles.contains(role)) {
            ++not_compared_[role];
            return;
        }
        differ(stored, side == "B" ? stored : "", side == "A" ? stored : "", fmt::format("{} lacks it", side));
    }

    /// A second copy of a tensor, which the other side lacks, must be what it is a copy of.
    void judge_copy(const Member& has, std::size_t number, const std::string& name) {
        const std::size_t original = has.numbers.at(name.substr(0, name.find(formats::copy_mark)));
        ++result_.compared;
        if (has.digested.digests[number] == has.digested.digests[original]) return;
        const std::string& stored = has.digested.canonical.stored_names[number];
        const bool in_a = &has == &a_;
        differ(
            stored, in_a ? stored : "", in_a ? "" : stored,
            fmt::format("is not what '{}' is, which it is a copy of", has.digested.canonical.stored_names[original]));
    }

    /// What the master of weight `name` is called in `member`; empty when it has none.
    static std::string master_of(const std::string& name, const Member& member) {
        constexpr std::string_view untaken = "weight ";  // how Names calls tensors that are not taken apart
        std::string master = "master." + name;
        if (name.starts_with(untaken)) {
            const std::string parameter = name.substr(untaken.size());
            const auto& shared = member.source->checkpoint.shared;
            const auto kept = shared.find(parameter);
            master = fmt::format("master {}", kept == shared.end() ? parameter : kept->second);
        }
        return member.numbers.contains(master) ? master : "";
    }

    /// Whether `half` keeps a master beside weight `name` of fewer bits, and the other side has full weights and no
    /// masters, which a framework without masters continues with.
    static bool is_rounded(const std::string& name, const Member& half, const Member& full) {
        const DType dtype = half.digested.canonical.tensors[half.numbers.at(name)].dtype;
        const DType other = full.digested.canonical.tensors[full.numbers.at(name)].dtype;
        return (dtype == DType::f16 || dtype == DType::bf16) && other == DType::f32 && !full.roles.contains("master");
    }

    /// Which weights are compared as masters, before anything is: both sides' in full precision, or one side's with
    /// what the other's round to where that has nothing else.
    void pair_masters() {
        for (const auto& [half, full] : {std::pair{&a_, &b_}, std::pair{&b_, &a_}}) {
            for (const auto& [name, number] : full->numbers) {
                if (full->digested.canonical.roles[number] != "weight") continue;
                const std::string master = master_of(name, *half);
                const bool both = half->numbers.contains(name);
                if (master.empty() || (both && (cast_ || !is_rounded(name, *half, *full)))) continue;
                (both ? masters_ : only_masters_).emplace(name, master);
                if (!full->roles.contains("master")) names_of_masters_.insert(master);
            }
        }
    }

    /// Weight `name`, of which one side has the master only, must be what that rounds to.
    void compare_rounded(const std::string& name) {
        const bool in_a = a_.numbers.contains(name);
        const Member& has = in_a ? a_ : b_;
        const Member& lacks = in_a ? b_ : a_;
        const std::size_t weight = has.numbers.at(name);
        const std::size_t master = lacks.numbers.at(only_masters_.at(name));
        const Tensor& rounded = has.digested.canonical.tensors[weight];
        const Tensor& full = lacks.digested.canonical.tensors[master];
        ++result_.compared;
        result_.bytes += has.digested.digests[weight].bytes;
        const std::string& stored = has.digested.canonical.stored_names[weight];
        const std::string& other = lacks.digested.canonical.stored_names[master];
        const auto fault = [&](std::string cause) {
            differ(stored, in_a ? stored : other, in_a ? other : stored, std::move(cause));
        };
        if (full.shape != rounded.shape)
            return fault(fmt::format("shape {} against {}", to_string(rounded.shape), to_string(full.shape)));
        const auto cast = full.dtype == rounded.dtype ? std::nullopt : std::optional{rounded.dtype};
        const auto difference =
            first_difference(comm_, 0, alone(lacks, master).stored(), alone(has, weight).stored(), {}, cast);
        if (difference)
            fault(fmt::format("differs first at {} from what its master '{}' rounds to: {} against {}",
                              at(has, weight, *difference), other, difference->second, difference->first));
    }

    /// The number of weight `name`, or of its master where one stands for it.
    std::size_t as_kept(const Member& member, const std::string& name) const {
        const auto master = masters_.find(name);
        const auto kept = master == masters_.end() ? member.numbers.end() : member.numbers.find(master->second);
        return kept == member.numbers.end() ? member.numbers.at(name) : kept->second;
    }

    void compare_tensor(std::size_t a, std::size_t b) {
        const Tensor& first = a_.digested.canonical.tensors[a];
        const Tensor& second = b_.digested.canonical.tensors[b];
        const std::string& stored = a_.digested.canonical.stored_names[a];
        const std::string& other = b_.digested.canonical.stored_names[b];
        ++result_.compared;
        result_.bytes += a_.digested.digests[a].bytes;
        if (first.shape != second.shape)
            return differ(stored, stored, other,
                          fmt::format("shape {} against {}", to_string(first.shape), to_string(second.shape)));
        if (first.dtype != second.dtype && !cast_) return differ(stored, stored, other, dtype_cause(first, second));
        if (first.dtype == second.dtype && a_.digested.digests[a] == b_.digested.digests[b]) return;
        const Alone one = alone(a_, a);
        const Alone two = alone(b_, b);
        const auto cast = first.dtype == second.dtype ? std::nullopt : std::optional{second.dtype};
        const auto difference = first_difference(comm_, 0, one.stored(), two.stored(), {}, cast);
        if (!difference) return;
        const std::string where = other == stored ? "" : fmt::format(" ('{}' in B)", other);
        differ(stored, stored, other,
               fmt::format("differs first at {}: {} against {}{}", at(a_, a, *difference), difference->first,
                           difference->second, where));
    }

    /// The index in the stored tensor.
    static std::string at(const Member& member, std::size_t tensor, const Difference& difference) {
        const Tuple<Index> index = stored_index(member.digested.canonical.parts[tensor], difference.index);
        return fmt::format("[{}]", fmt::join(index.begin(), index.end(), ", "));
    }

    const mpi::Comm& comm_;
    Member a_;
    Member b_;
    bool cast_;
    Comparison result_;
    std::map<std::string, std::string> masters_;       // that weights are compared with, by the weights' names
    std::map<std::string, std::string> only_masters_;  // the same, of weights that one side does not have
    std::set<std::string> names_of_masters_;           // that nothing else is compared with
    std::map<std::string, std::uint64_t> not_compared_;
};

/// From then on tensors are nothing but their names.
void forget_meanings(formats::Source& source) {
    source.reading = {.meanings = std::vector<Meaning>(source.reading.meanings.size())};
    source.checkpoint.roles.clear();
    source.checkpoint.parameters.clear();
}

std::set<std::string_view> names_of(const formats::Source& source) {
    std::set<std::string_view> names;
    for (const Tensor& tensor : source.checkpoint.catalogue.tensors) names.insert(tensor.name);
    return names;
}

}  // namespace

Comparison compare(const mpi::Comm& comm, formats::Source& a, formats::Source& b, bool cast) {
    if (!a.reading.complete) adopt_dims(a, b);
    if (!b.reading.complete) adopt_dims(b, a);
    // Names of different frameworks can be told apart only part by part, and that takes all sizes.
    if (a.reading.complete != b.reading.complete || !a.reading.complete) {
        const bool same_names = (a.reading.dialect == nullptr) == (b.reading.dialect == nullptr) &&
                                (!a.reading.dialect || a.reading.dialect->name == b.reading.dialect->name);
        if (!same_names && names_of(a) != names_of(b))
            throw mpi::AgreedError{failure(
                "A and B use different names, and neither tells the model's dimensions; give them with --config")};
        for (formats::Source* source : {&a, &b}) {
            source->reading.complete = false;
            if (!same_names) forget_meanings(*source);
        }
    }
    return Comparer{comm, read_member(comm, a), read_member(comm, b), cast}.run();
}

}  // namespace tpx::cli
