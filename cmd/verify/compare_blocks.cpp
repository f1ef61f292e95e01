// SPDX-License-Identifier: Apache-2.0
#include "cmd/verify/compare_blocks.hpp"

#include "lib/core/error.hpp"

#include <algorithm>
#include <map>
#include <optional>

namespace tpx::cli {
namespace {

using formats::OpaqueTensor;

/// The quantized tensors of a checkpoint by name.
std::map<std::string, std::size_t> numbers_of(const ComparedCheckpoint& member) {
    std::map<std::string, std::size_t> numbers;
    for (std::size_t q = 0; q < member.digested.opaque.size(); ++q) numbers.emplace(member.digested.opaque[q].name, q);
    return numbers;
}

OneTensor bytes_of(const ComparedCheckpoint& member, std::size_t number) {
    const Catalogue blocks = blocks_as_tensors(member.source->checkpoint);
    OneTensor one{{blocks.tensors[number]}, {blocks.pieces[number]}, formats::paths(blocks)};
    one.pieces[0].tensor = 0;
    return one;
}

/// The dtype of a canonical tensor that is stored as `stored` without blocks; empty if there is none.
std::string plain_dtype(const ComparedCheckpoint& member, const std::string& stored) {
    const formats::CanonicalTensors& canonical = member.digested.canonical;
    for (std::size_t t = 0; t < canonical.tensors.size(); ++t)
        if (canonical.stored_name(t) == stored) return std::string{name(canonical.tensors[t].dtype)};
    return "";
}

void differ(const std::string& tensor, std::string cause, char lacking, Comparison& result) {
    result.differences.push_back({.role = "weight",
                                  .name = tensor,
                                  .canonical = "",
                                  .a = lacking == 'A' ? "" : tensor,
                                  .b = lacking == 'B' ? "" : tensor,
                                  .cause = std::move(cause),
                                  .value = false,
                                  .lacking = lacking});
}

/// Reports a tensor that is quantized only on the side other than `lacking`.
void one_sided(const OpaqueTensor& tensor, const ComparedCheckpoint& other, char lacking, Comparison& result) {
    const std::string plain = plain_dtype(other, tensor.name);
    if (plain.empty()) return differ(tensor.name, fmt::format("{} lacks it", lacking), lacking, result);
    const bool first = lacking == 'B';
    differ(tensor.name, fmt::format("type {} against {}", first ? tensor.type : plain, first ? plain : tensor.type), 0,
           result);
}

}  // namespace

bool has_blocks(const ComparedCheckpoint& member, const std::string& name) {
    return std::ranges::find(member.digested.opaque, name, &OpaqueTensor::name) != member.digested.opaque.end();
}

void compare_blocks(const mpi::Comm& comm, const ComparedCheckpoint& a, const ComparedCheckpoint& b,
                    const ExecOptions& options, Comparison& result) {
    const auto of_b = numbers_of(b);
    for (const auto& [name, number] : numbers_of(a)) {
        const OpaqueTensor& first = a.digested.opaque[number];
        const auto other = of_b.find(name);
        if (other == of_b.end()) {
            one_sided(first, b, 'B', result);
            continue;
        }
        const OpaqueTensor& second = b.digested.opaque[other->second];
        ++result.compared;
        result.bytes += first.bytes;
        if (first.type != second.type) {
            differ(name, fmt::format("type {} against {}", first.type, second.type), 0, result);
        } else if (first.shape != second.shape) {
            differ(name, fmt::format("shape {} against {}", to_string(first.shape), to_string(second.shape)), 0,
                   result);
        } else if (a.digested.blocks[number] != b.digested.blocks[other->second]) {
            const OneTensor one = bytes_of(a, number);
            const OneTensor two = bytes_of(b, other->second);
            if (const auto where = first_difference(comm, 0, one.stored(), two.stored(), options))
                differ(name,
                       fmt::format("its {} blocks differ first at byte {}: {} against {}", first.type, where->index[0],
                                   where->first, where->second),
                       0, result);
        }
    }
    for (const auto& [name, number] : of_b)
        if (!has_blocks(a, name)) one_sided(b.digested.opaque[number], a, 'A', result);
}

}  // namespace tpx::cli
