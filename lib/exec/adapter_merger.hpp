// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "lib/core/merged_weight.hpp"
#include "lib/exec/dequantize.hpp"

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

namespace tpx {

/// The maximum memory that an AdapterMerger uses for `weight`, in bytes.
std::uint64_t merging_memory(const MergedWeight& weight);

/// Computes the values of weights with a merged adapter. Reuses its buffers.
class AdapterMerger {
public:
    using Read = Dequantizer::Read;

    /// Fills `into` with the bytes of the values of `weight`, row by row, from byte `offset` on; both must be whole
    /// elements. `weight` must outlive the next call.
    void read(const MergedWeight& weight, std::uint64_t offset, std::span<std::byte> into, const Read& read);

private:
    struct Run;
    void hold(const MergedWeight& weight, const Read& read);
    void read_numbers(const MergedWeight::Part& part, Index first, std::span<float> into, const Read& read);
    void read_matrix(const MergedWeight::Factor& factor, Index first, Index rows, Index columns,
                     std::vector<float>& into, const Read& read);
    void add_deltas(const MergedWeight& weight, const Run& run, std::span<float> values);
    float factor_of_row(const MergedWeight& weight, Index row, const Read& read);
    void compute(const MergedWeight& weight, const Run& run, const Read& read);

    const MergedWeight* held_ = nullptr;  // the weight whose factors, magnitudes and norms are held
    std::vector<float> right_;            // rank * columns
    std::vector<float> magnitudes_;       // of all rows; empty without DoRA
    std::vector<float> row_factors_;      // magnitude / norm; NaN: not yet known
    std::vector<float> left_;             // run's rows * rank
    std::vector<float> values_;           // run's elements
    std::vector<float> row_;              // one row, for its norm
    std::vector<std::byte> packed_;       // numbers of a factor that is stored between others or transposed
    std::vector<float> sums_;             // a part of a row's products
    std::vector<std::byte> stored_;
};

}  // namespace tpx
