// SPDX-License-Identifier: Apache-2.0
#include "lib/core/digest.hpp"

#include "lib/core/crc.hpp"

#include <fmt/format.h>

namespace tpx {
namespace {

struct Axis {
    Index count = 1;
    Index memory = 0;   // bytes from one row to the next in memory
    Index message = 0;  // the same in the tensor
};

// The rows of a box: maximal runs that are contiguous in memory and in the tensor, and the axes that enumerate them in
// the tensor's order.
struct RowLayout {
    Index length = 0;
    Tuple<Axis> axes;  // outermost first, no count is 1
    Index begin = 0;   // where the first row begins in the tensor, in bytes
};

RowLayout rows_of(const Shape& shape, int itemsize, const Box& box, const Strides& strides) {
    const Strides message = row_major(shape);
    RowLayout rows{itemsize, {}, 0};
    Tuple<Axis> inner_first;
    for (int k = box.size() - 1; k >= 0; --k) {
        rows.begin += box[k].begin * message[k] * itemsize;
        const Axis axis{box[k].size(), strides[k] * itemsize, message[k] * itemsize};
        if (axis.count == 1) continue;
        if (inner_first.empty() && axis.memory == rows.length && axis.message == rows.length) {
            rows.length *= axis.count;
            continue;
        }
        if (!inner_first.empty()) {
            Axis& inner = inner_first[inner_first.size() - 1];
            if (axis.memory == inner.memory * inner.count && axis.message == inner.message * inner.count) {
                inner.count *= axis.count;
                continue;
            }
        }
        inner_first.push_back(axis);
    }
    for (int k = inner_first.size() - 1; k >= 0; --k) rows.axes.push_back(inner_first[k]);
    return rows;
}

// Folds rows that are too long for RowFold to be faster.
class LongRows {
public:
    explicit LongRows(std::size_t length) : length_{length} {}

    struct Step {
        std::uint64_t factor = 0;
    };
    static Step step(std::uint64_t bytes) { return {Crc64::power(8 * bytes)}; }

    void add(const std::byte* rows, Index stride, Index count, Step step) {
        for (; count > 0; --count, rows += stride) crc_ = multiply(crc_, step.factor) ^ Crc64::of({rows, length_});
    }
    std::uint64_t crc() const { return crc_; }

private:
    std::size_t length_;
    std::uint64_t crc_ = 0;
};

// Visits the rows in the tensor's order. Only the innermost axis is a loop of rows at equal distance; when an outer
// index advances, the distance is its stride minus what the inner axes have covered.
template <class Fold>
std::uint64_t crc_of(const RowLayout& rows, const std::byte* data) {
    Fold fold(static_cast<std::size_t>(rows.length));
    const int axes = rows.axes.size();
    Tuple<typename Fold::Step> steps(axes);
    Index covered = 0;
    for (int k = axes - 1; k >= 0; --k) {
        steps[k] = Fold::step(static_cast<std::uint64_t>(rows.axes[k].message - covered));
        covered += (rows.axes[k].count - 1) * rows.axes[k].message;
    }
    fold.add(data, 0, 1, Fold::step(1));
    if (axes == 0) return fold.crc();
    const Axis inner = rows.axes[axes - 1];
    Tuple<Index> index(axes);
    for (;;) {
        fold.add(data + inner.memory, inner.memory, inner.count - 1, steps[axes - 1]);
        int k = axes - 2;
        for (; k >= 0 && index[k] + 1 == rows.axes[k].count; --k) {
            data -= index[k] * rows.axes[k].memory;
            index[k] = 0;
        }
        if (k < 0) return fold.crc();
        ++index[k];
        data += rows.axes[k].memory;
        fold.add(data, 0, 1, steps[k]);
    }
}

}  // namespace

void add(Digest& digest, const Shape& whole, int itemsize, const Box& box, const std::byte* data,
         const Strides& strides) {
    if (empty(box)) return;
    const RowLayout rows = rows_of(whole, itemsize, box, strides);
    Index end = rows.begin + rows.length;
    for (const Axis& axis : rows.axes) end += (axis.count - 1) * axis.message;
    const bool is_short = rows.length <= static_cast<Index>(RowFold::longest) && !rows.axes.empty();
    const std::uint64_t crc = is_short ? crc_of<RowFold>(rows, data) : crc_of<LongRows>(rows, data);
    digest.crc ^= Crc64::shift(crc, static_cast<std::uint64_t>(volume(whole) * itemsize - end));
    digest.bytes += static_cast<std::uint64_t>(volume(box) * itemsize);
}

void add(Digest& digest, const Shape& whole, int itemsize, const Box& box, const std::byte* data) {
    add(digest, whole, itemsize, box, data, row_major(sizes(box)));
}

std::string to_string(const Digest& digest) { return fmt::format("{:016x}-{}", digest.crc, digest.bytes); }

}  // namespace tpx
