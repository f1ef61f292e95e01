// SPDX-License-Identifier: Apache-2.0
#include "lib/solve/break_ties.hpp"

#include <algorithm>
#include <optional>

// To try a threshold, looks for a perfect matching of pairs that take no longer (Kuhn 1955). To make a perfect matching
// possible, adds rows, which may have any column that is not required, until there are as many rows as columns.

namespace tpx {
namespace {

constexpr std::uint32_t none = ~0u;

class Matching {
public:
    Matching(const Ties& ties, double longest)
        : ties_{ties},
          longest_{longest},
          columns_{static_cast<std::uint32_t>(ties.required.size())},
          row_of_(columns_, none) {}

    std::optional<std::vector<std::uint32_t>> find() {
        std::vector<std::uint32_t> open;
        for (std::uint32_t row = 0; row < ties_.given.size(); ++row) {
            if (is_allowed(row, ties_.given[row]))
                row_of_[ties_.given[row]] = row;
            else
                open.push_back(row);
        }
        for (auto row = static_cast<std::uint32_t>(ties_.given.size()); row < columns_; ++row) open.push_back(row);
        for (std::uint32_t row : open) {
            seen_.assign(columns_, false);
            if (!augment(row)) return std::nullopt;
        }
        std::vector<std::uint32_t> found(ties_.given.size());
        for (std::uint32_t column = 0; column < columns_; ++column) {
            if (row_of_[column] < found.size()) found[row_of_[column]] = column;
        }
        return found;
    }

private:
    bool is_allowed(std::uint32_t row, std::uint32_t column) const {
        if (row >= ties_.given.size()) return !ties_.required[column];
        const double seconds = ties_.seconds[row][column];
        return seconds >= 0 && seconds <= longest_;
    }
    bool augment(std::uint32_t row) {
        for (std::uint32_t column = 0; column < columns_; ++column) {
            if (seen_[column] || !is_allowed(row, column)) continue;
            seen_[column] = true;
            if (row_of_[column] != none && !augment(row_of_[column])) continue;
            row_of_[column] = row;
            return true;
        }
        return false;
    }

    const Ties& ties_;
    double longest_;
    std::uint32_t columns_;
    std::vector<std::uint32_t> row_of_;
    std::vector<bool> seen_;
};

}  // namespace

std::vector<std::uint32_t> break_ties(const Ties& ties) {
    std::vector<double> times;
    double given = 0;
    for (std::size_t row = 0; row < ties.given.size(); ++row)
        given = std::max(given, ties.seconds[row][ties.given[row]]);
    for (const std::vector<double>& row : ties.seconds) {
        for (double seconds : row) {
            if (seconds >= 0 && seconds < given) times.push_back(seconds);
        }
    }
    std::ranges::sort(times);
    times.erase(std::ranges::unique(times).begin(), times.end());
    std::vector<std::uint32_t> best = ties.given;
    std::size_t first = 0;
    for (std::size_t last = times.size(); first < last;) {
        const std::size_t middle = first + (last - first) / 2;
        if (auto found = Matching{ties, times[middle]}.find()) {
            best = std::move(*found);
            last = middle;
        } else {
            first = middle + 1;
        }
    }
    return best;
}

}  // namespace tpx
