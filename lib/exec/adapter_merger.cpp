// SPDX-License-Identifier: Apache-2.0
#include "lib/exec/adapter_merger.hpp"

#include "lib/core/error.hpp"
#include "lib/exec/copy_elements.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstring>
#include <limits>

#if defined(__x86_64__)
#include <immintrin.h>
#endif

namespace tpx {
namespace {

constexpr Index at_once = 1 << 16;       // elements computed in one run
constexpr Index columns_at_once = 2048;  // columns whose sums fit in the L1 cache

/// into[c] = factor * from[c] + into[c], each rounded once.
void add_products_slowly(float factor, const float* from, float* into, Index count) {
    for (Index c = 0; c < count; ++c) into[c] = std::fma(factor, from[c], into[c]);
}

#if defined(__x86_64__)
__attribute__((target("avx2,fma"))) void add_products_quickly(float factor, const float* from, float* into,
                                                              Index count) {
    constexpr Index lanes = 8;
    const __m256 factors = _mm256_set1_ps(factor);
    Index c = 0;
    for (; c + lanes <= count; c += lanes)
        _mm256_storeu_ps(into + c, _mm256_fmadd_ps(factors, _mm256_loadu_ps(from + c), _mm256_loadu_ps(into + c)));
    for (; c < count; ++c) into[c] = __builtin_fmaf(factor, from[c], into[c]);
}

void add_products(float factor, const float* from, float* into, Index count) {
    static const bool has = __builtin_cpu_supports("avx2") != 0 && __builtin_cpu_supports("fma") != 0;
    has ? add_products_quickly(factor, from, into, count) : add_products_slowly(factor, from, into, count);
}
#else
void add_products(float factor, const float* from, float* into, Index count) {
    add_products_slowly(factor, from, into, count);
}
#endif

/// The Euclidean norm as torch.linalg.norm computes it with AVX2: eight sums, added in order, then the rest.
float norm(std::span<const float> row) {
    std::array<float, 8> sums{};
    std::size_t c = 0;
    for (; c + sums.size() <= row.size(); c += sums.size())
        for (std::size_t k = 0; k < sums.size(); ++k) sums[k] += row[c + k] * row[c + k];
    for (std::size_t k = 1; k < sums.size(); ++k) sums[0] += sums[k];
    for (; c < row.size(); ++c) sums[0] += row[c] * row[c];
    return std::sqrt(sums[0]);
}

/// Rounds `values` to `dtype`; `buffer` is scratch memory.
void round_to(DType dtype, std::span<float> values, std::vector<std::byte>& buffer) {
    const auto count = static_cast<Index>(values.size());
    buffer.resize(values.size() * static_cast<std::size_t>(itemsize(dtype)));
    auto* bytes = reinterpret_cast<std::byte*>(values.data());
    cast_elements(count, bytes, DType::f32, buffer.data(), dtype);
    cast_elements(count, buffer.data(), dtype, bytes, DType::f32);
}

/// Rows of a run: as many as its limits on values and on numbers of the left factor allow.
Index most_rows(const MergedWeight& weight) {
    return std::max<Index>(1, at_once / std::max({weight.columns, weight.rank, Index{1}}));
}

/// Whether numbers of a row are closer together than those of a column.
bool is_by_row(const MergedWeight::Factor& factor) { return factor.column_step <= factor.row_step; }

/// How many numbers a line of a matrix of `rows` * `columns` numbers spans, including numbers of other matrices between
/// its own.
Index line_span(const MergedWeight::Factor& factor, Index rows, Index columns) {
    const Index count = is_by_row(factor) ? columns : rows;
    return count == 0 ? 0 : (count - 1) * std::min(factor.row_step, factor.column_step) + 1;
}

/// Copies `count` numbers of `size` bytes that are `step` numbers apart, to places `into_step` numbers apart.
void gather(std::size_t size, const std::byte* from, Index step, std::byte* into, Index into_step, Index count) {
    for (Index i = 0; i < count; ++i)
        std::memcpy(into + static_cast<std::size_t>(i * into_step) * size,
                    from + static_cast<std::size_t>(i * step) * size, size);
}

}  // namespace

/// Elements that are computed together: whole rows, or a part of one.
struct AdapterMerger::Run {
    Index row = 0;
    Index rows = 1;
    Index column = 0;
    Index columns = 0;
};

std::uint64_t merging_memory(const MergedWeight& weight) {
    const Index factors = weight.rank * weight.columns + most_rows(weight) * weight.rank;
    const Index rows = weight.magnitudes ? 2 * weight.rows + weight.columns : 0;
    // A line of a factor includes the numbers between its own, which belong to other experts.
    const Index line = std::max(line_span(weight.left, most_rows(weight), weight.rank),
                                line_span(weight.right, weight.rank, weight.columns));
    // The stored bytes of the largest part are read before they are widened; they take no more space than its floats.
    const Index packed = std::max(weight.rank * weight.columns, most_rows(weight) * weight.rank);
    const Index stored = std::max({at_once, packed, weight.magnitudes ? weight.rows : 0, line});
    return static_cast<std::uint64_t>(factors + rows + stored + packed + at_once + columns_at_once) * sizeof(float);
}

void AdapterMerger::read_numbers(const MergedWeight::Part& part, Index first, std::span<float> into, const Read& read) {
    const auto size = static_cast<std::uint64_t>(itemsize(part.dtype));
    if (into.empty()) return;
    stored_.resize(into.size() * size);
    read(part.file, part.offset + static_cast<std::uint64_t>(first) * size, stored_);
    cast_elements(static_cast<Index>(into.size()), stored_.data(), part.dtype,
                  reinterpret_cast<std::byte*>(into.data()), DType::f32);
}

/// Reads `rows` rows of a factor from `first` on, each of `columns` numbers, row by row into `into`.
void AdapterMerger::read_matrix(const MergedWeight::Factor& factor, Index first, Index rows, Index columns,
                                std::vector<float>& into, const Read& read) {
    into.resize(static_cast<std::size_t>(rows * columns));
    if (into.empty()) return;
    if (factor.column_step == 1 && factor.row_step == columns)
        return read_numbers(factor.part, first * columns, into, read);
    const auto size = static_cast<std::size_t>(itemsize(factor.part.dtype));
    const bool by_row = is_by_row(factor);
    const Index lines = by_row ? rows : columns;
    const Index count = by_row ? columns : rows;
    const auto [step, line_step] = std::minmax(factor.row_step, factor.column_step);
    const Index span = line_span(factor, rows, columns);
    // Lines of one expert are read together with the lines of other experts between them, unless most of the bytes are
    // unneeded.
    const Index most = line_step < 2 * span ? std::max<Index>(1, (at_once - span) / line_step + 1) : 1;
    packed_.resize(into.size() * size);
    for (Index line = 0; line < lines; line += most) {
        const Index here = std::min(most, lines - line);
        stored_.resize(static_cast<std::size_t>((here - 1) * line_step + span) * size);
        const Index from = first * factor.row_step + line * line_step;
        read(factor.part.file, factor.part.offset + static_cast<std::uint64_t>(from) * size, stored_);
        for (Index k = 0; k < here; ++k) {
            const Index begin = by_row ? (line + k) * columns : line + k;
            gather(size, &stored_[static_cast<std::size_t>(k * line_step) * size], step,
                   &packed_[static_cast<std::size_t>(begin) * size], by_row ? 1 : columns, count);
        }
    }
    cast_elements(rows * columns, packed_.data(), factor.part.dtype, reinterpret_cast<std::byte*>(into.data()),
                  DType::f32);
}

/// Reads what all rows of `weight` need, unless it was read before.
void AdapterMerger::hold(const MergedWeight& weight, const Read& read) {
    if (held_ == &weight) return;
    held_ = nullptr;
    read_matrix(weight.right, 0, weight.rank, weight.columns, right_, read);
    magnitudes_.resize(weight.magnitudes ? static_cast<std::size_t>(weight.rows) : 0);
    if (weight.magnitudes) read_numbers(*weight.magnitudes, 0, magnitudes_, read);
    row_factors_.assign(magnitudes_.size(), std::numeric_limits<float>::quiet_NaN());
    held_ = &weight;
}

/// Adds the adapter's deltas to `values`, the values of `run`. left_ must contain the run's rows of the left factor.
void AdapterMerger::add_deltas(const MergedWeight& weight, const Run& run, std::span<float> values) {
    for (Index begin = 0; begin < run.columns; begin += columns_at_once) {
        const Index count = std::min(columns_at_once, run.columns - begin);
        sums_.resize(static_cast<std::size_t>(count));
        for (Index r = 0; r < run.rows; ++r) {
            std::ranges::fill(sums_, 0.0f);
            for (Index k = 0; k < weight.rank; ++k)
                add_products(left_[r * weight.rank + k], &right_[k * weight.columns + run.column + begin], sums_.data(),
                             count);
            float* out = &values[r * run.columns + begin];
            for (float& sum : sums_) sum *= weight.scale;
            if (weight.rounds_delta) round_to(weight.dtype, sums_, stored_);
            for (Index c = 0; c < count; ++c) out[c] += sums_[c];
        }
    }
}

/// DoRA's factor of a row: its magnitude divided by the norm of the whole row with the adapter. Overwrites left_ with
/// this row.
float AdapterMerger::factor_of_row(const MergedWeight& weight, Index row, const Read& read) {
    float& factor = row_factors_[row];
    if (!std::isnan(factor)) return factor;
    row_.resize(static_cast<std::size_t>(weight.columns));
    for (Index c = 0; c < weight.columns; c += at_once) {
        const Index count = std::min(at_once, weight.columns - c);
        read_numbers(weight.base, row * weight.columns + c, std::span{row_}.subspan(static_cast<std::size_t>(c), count),
                     read);
    }
    const Run whole{row, 1, 0, weight.columns};
    read_matrix(weight.left, row, 1, weight.rank, left_, read);
    add_deltas(weight, whole, row_);
    return factor = magnitudes_[row] / norm(row_);
}

void AdapterMerger::compute(const MergedWeight& weight, const Run& run, const Read& read) {
    values_.resize(static_cast<std::size_t>(run.rows * run.columns));
    read_numbers(weight.base, run.row * weight.columns + run.column, values_, read);
    if (weight.addend != 0)
        for (float& value : values_) value += weight.addend;
    if (weight.rank > 0) {
        read_matrix(weight.left, run.row, run.rows, weight.rank, left_, read);
        add_deltas(weight, run, values_);
    }
    if (!weight.magnitudes) return;
    for (Index r = 0; r < run.rows; ++r) {
        const float factor = factor_of_row(weight, run.row + r, read);
        for (float& value : std::span{values_}.subspan(static_cast<std::size_t>(r * run.columns), run.columns))
            value *= factor;
    }
}

void AdapterMerger::read(const MergedWeight& weight, std::uint64_t offset, std::span<std::byte> into,
                         const Read& read) {
    const auto size = static_cast<std::size_t>(itemsize(weight.dtype));
    if (offset % size != 0 || into.size() % size != 0)
        throw failure("{} bytes from {} are not whole elements of {}", into.size(), offset, name(weight.dtype));
    hold(weight, read);
    auto element = static_cast<Index>(offset / size);
    while (!into.empty()) {
        const auto left = static_cast<Index>(into.size() / size);
        Run run{element / weight.columns, 1, element % weight.columns, 0};
        run.columns = std::min({left, weight.columns - run.column, at_once});
        if (run.columns == weight.columns)
            run.rows = std::max<Index>(1, std::min(most_rows(weight), left / weight.columns));
        compute(weight, run, read);
        const auto part = into.first(values_.size() * size);
        cast_elements(static_cast<Index>(values_.size()), reinterpret_cast<const std::byte*>(values_.data()),
                      DType::f32, part.data(), weight.dtype);
        into = into.subspan(part.size());
        element += run.rows * run.columns;
    }
}

}  // namespace tpx
