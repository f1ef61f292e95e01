// SPDX-License-Identifier: Apache-2.0
#include "lib/exec/overflows.hpp"

#include "lib/core/error.hpp"
#include "lib/exec/copy_elements.hpp"
#include "lib/exec/difference.hpp"

#include <array>

namespace tpx {
namespace {

/// Whether the cast cannot represent the element.
bool overflows(const std::byte* element, DType from, DType to) {
    std::array<std::byte, sizeof(double)> cast{};
    return cast_elements({}, element, {}, from, cast.data(), {}, to);
}

/// The largest value of a dtype, and the dtypes that have larger ones.
struct Limit {
    std::string_view largest;
    std::string_view wider;
};

Limit limit_of(DType dtype) {
    if (dtype == DType::f8_e4m3) return {"448", "f8e5m2:unscaled, f16, bf16 or f32"};
    if (dtype == DType::f8_e5m2) return {"57344", "f16, bf16 or f32"};
    if (dtype == DType::f16) return {"65504", "bf16, f32 or f64"};
    if (dtype == DType::bf16) return {"3.3895e38", "f32 or f64"};
    return {"3.4028e38", "f64"};
}

}  // namespace

void Overflows::add(const Piece& piece, const Box& box, const std::byte* values, const Strides& strides, DType from,
                    DType to) {
    const Shape shape = sizes(box);
    bool first = piece.tensor < tensor_;
    for (Index k = 0; k < volume(shape); ++k) {
        Index rest = k;
        const std::byte* element = values;
        Tuple<Index> index(shape.size());
        for (int axis = shape.size() - 1; axis >= 0; --axis) {
            const Index at = rest % shape[axis];
            index[axis] = box[axis].begin + at;
            element += at * strides[axis];
            rest /= shape[axis];
        }
        if (!overflows(element, from, to)) continue;
        ++count_;
        if (!first && (piece.tensor != tensor_ || index >= index_)) continue;
        first = false;
        tensor_ = piece.tensor;
        file_ = piece.file;
        index_ = index;
        value_ = element_text(from, element);
        to_ = to;
    }
}

void Overflows::join(const Overflows& other) {
    const std::uint64_t count = count_ + other.count_;
    if (other.tensor_ < tensor_ || (other.tensor_ == tensor_ && other.count_ > 0 && other.index_ < index_))
        *this = other;
    count_ = count;
}

void Overflows::refuse(const mpi::Comm& comm, const Side& source, std::span<const SourceFile> files) const {
    std::array<std::uint64_t, 1> counts{count_}, tensors{tensor_};
    mpi::all_sum(comm, counts);
    if (counts[0] == 0) return;
    mpi::all_min(comm, tensors);
    mpi::all_or_none(comm, [&] {
        if (tensor_ != tensors[0]) return;
        const std::string more = counts[0] > 1 ? fmt::format(" (and {} more)", counts[0] - 1) : std::string{};
        const Limit limit = limit_of(to_);
        throw failure(
            "{}: tensor '{}': {} at {} does not fit {}, whose largest value is {}{}; use --dtype {}, or keep the dtype",
            files[file_].path.string(), source.tensors[tensor_].name, value_, to_string(index_), name(to_),
            limit.largest, more, limit.wider);
    });
}

}  // namespace tpx
