// SPDX-License-Identifier: Apache-2.0
#include "lib/exec/state_check.hpp"

#include "lib/exec/copy_elements.hpp"
#include "lib/exec/slabs.hpp"
#include "lib/exec/source_files.hpp"

#include <algorithm>
#include <bit>
#include <cmath>

namespace tpx {
namespace {

// Row-major memory as doubles.
std::span<const double> doubles(const std::vector<std::byte>& bytes) {
    return {reinterpret_cast<const double*>(bytes.data()), bytes.size() / sizeof(double)};
}

class Checker {
public:
    Checker(const Side& side, std::span<const SourceFile> files, std::uint64_t memory)
        : side_{side}, files_{files}, arena_{memory / 2}, most_{slab_elements(memory / 2, sizeof(double))} {
        pieces_.resize(side.tensors.size());
        for (const Piece& piece : side.pieces) pieces_[piece.tensor].push_back(&piece);
    }

    /// Checks this rank's share of the slabs; slabs are numbered consecutively through all checks.
    void take(const StateCheck& check, int rank, int ranks, StateFacts& facts) {
        const Tensor& tensor = side_.tensors[check.tensor];
        if (volume(tensor.shape) == 0) return;
        SlabReader state = reader(check.tensor);
        std::optional<SlabReader> weight;
        if (check.weight) weight.emplace(reader(*check.weight));
        const Slabs slabs{tensor.shape, most_};
        for (Index slab = 0; slab < slabs.count(); ++slab) {
            if (next_slab_++ % ranks != rank) continue;
            const Box box = slabs[slab];
            const auto values = doubles(state.read(box));
            const std::uint64_t begin = slabs.position(box);
            facts.elements += values.size();
            look(values, check, begin, facts);
            if (weight) compare(values, doubles(weight->read(box)), side_.tensors[*check.weight].dtype, begin, facts);
        }
    }

private:
    SlabReader reader(std::uint32_t tensor) {
        return {side_.tensors[tensor], pieces_[tensor], DType::f64, files_, arena_};
    }

    static void note(std::uint64_t position, double value, double weight, StateFacts& facts) {
        if (position >= facts.first) return;
        facts.first = position;
        facts.value = value;
        facts.weight = weight;
    }

    static void look(std::span<const double> values, const StateCheck& check, std::uint64_t begin, StateFacts& facts) {
        for (std::size_t k = 0; k < values.size(); ++k) {
            const bool finite = std::isfinite(values[k]);
            const bool negative = check.squares && values[k] < 0;
            if (finite && !check.weight) facts.largest = std::max(facts.largest, std::abs(values[k]));
            if (finite && !negative) continue;
            ++(finite ? facts.negative : facts.not_finite);
            note(begin + k, values[k], 0, facts);
        }
    }

    void compare(std::span<const double> values, std::span<const double> weights, DType dtype, std::uint64_t begin,
                 StateFacts& facts) {
        const Shape extent{static_cast<Index>(values.size())};
        rounded_.resize(values.size() * static_cast<std::size_t>(itemsize(dtype)));
        back_.resize(values.size());
        const Strides narrow{itemsize(dtype)};
        const Strides wide{sizeof(double)};
        auto* back = reinterpret_cast<std::byte*>(back_.data());
        const auto* from = reinterpret_cast<const std::byte*>(values.data());
        cast_elements(extent, from, wide, DType::f64, rounded_.data(), narrow, dtype);
        cast_elements(extent, rounded_.data(), narrow, dtype, back, wide, DType::f64);
        for (std::size_t k = 0; k < values.size(); ++k) {
            const double size = std::abs(weights[k]);
            if (std::isfinite(size)) facts.largest = std::max(facts.largest, size);
            if (back_[k] == weights[k]) continue;
            ++facts.misses;
            const double away = std::abs(values[k] - weights[k]);
            facts.farthest = std::max(facts.farthest, std::isfinite(away) ? away : HUGE_VAL);
            note(begin + k, values[k], weights[k], facts);
        }
    }

    Side side_;
    SourceFiles files_;
    Arena arena_;
    Index most_;
    std::vector<std::vector<const Piece*>> pieces_;  // by tensor
    std::vector<std::byte> rounded_;
    std::vector<double> back_;
    Index next_slab_ = 0;
};

// Combines what all ranks found.
void join(const mpi::Comm& comm, std::vector<StateFacts>& facts) {
    std::vector<std::uint64_t> sums, first, most;
    for (const StateFacts& own : facts) {
        sums.insert(sums.end(), {own.elements, own.misses, own.negative, own.not_finite});
        first.push_back(own.first);
        // The order of nonnegative doubles is that of their bits.
        most.insert(most.end(),
                    {std::bit_cast<std::uint64_t>(own.farthest), std::bit_cast<std::uint64_t>(own.largest)});
    }
    mpi::all_sum(comm, sums);
    mpi::all_min(comm, first);
    mpi::all_max(comm, most);
    std::vector<std::uint64_t> there;  // values from the one rank that found the first element
    for (std::size_t k = 0; k < facts.size(); ++k) {
        const bool mine = first[k] != StateFacts::none && facts[k].first == first[k];
        there.push_back(mine ? std::bit_cast<std::uint64_t>(facts[k].value) : 0);
        there.push_back(mine ? std::bit_cast<std::uint64_t>(facts[k].weight) : 0);
    }
    mpi::all_sum(comm, there);
    for (std::size_t k = 0; k < facts.size(); ++k)
        facts[k] = {.elements = sums[4 * k],
                    .misses = sums[4 * k + 1],
                    .negative = sums[4 * k + 2],
                    .not_finite = sums[4 * k + 3],
                    .first = first[k],
                    .value = std::bit_cast<double>(there[2 * k]),
                    .weight = std::bit_cast<double>(there[2 * k + 1]),
                    .farthest = std::bit_cast<double>(most[2 * k]),
                    .largest = std::bit_cast<double>(most[2 * k + 1])};
}

}  // namespace

std::vector<StateFacts> check_states(const mpi::Comm& comm, const Side& side, std::span<const SourceFile> files,
                                     std::span<const StateCheck> checks, const ExecOptions& options) {
    std::vector<StateFacts> facts(checks.size());
    mpi::all_or_none(comm, [&] {
        check_lengths(comm, side, std::vector<bool>(side.pieces.size(), true), files);
        Checker checker{side, files, options.memory};
        for (std::size_t k = 0; k < checks.size(); ++k) checker.take(checks[k], comm.rank(), comm.size(), facts[k]);
    });
    join(comm, facts);
    return facts;
}

}  // namespace tpx
