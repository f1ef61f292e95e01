// SPDX-License-Identifier: Apache-2.0
#include "formats/deepspeed/partition_shares.hpp"

#include "formats/deepspeed/catalogue_builder.hpp"
#include "formats/deepspeed/groups.hpp"

#include <map>

namespace tpx::formats::deepspeed {
namespace {

using Numbers = std::vector<std::uint32_t>;

class PartitionShares {
public:
    explicit PartitionShares(const Content& content) : content_{content}, ranks_{content.layout.dp} {}

    /// Splits each tensor separately.
    void split_each(const Numbers& tensors) {
        for (const std::uint32_t t : tensors) {
            const Index elements = volume(content_.tensors[t].shape);
            const Index part = part_of_parameter(elements, ranks_);
            for (int rank = 0; rank < ranks_; ++rank)
                add(t, intersect({rank * part, (rank + 1) * part}, {0, elements}), rank);
        }
    }

    /// Splits the concatenation of the tensors.
    void split_group(const Numbers& tensors) {
        std::vector<Index> elements;
        for (const std::uint32_t t : tensors) elements.push_back(volume(content_.tensors[t].shape));
        const GroupLayout group = lay_out_group(elements, {}, ranks_);
        if (group.part == 0) return;
        for (std::size_t k = 0; k < tensors.size(); ++k) {
            const Interval own{group.starts[k], group.starts[k] + elements[k]};
            for (Index rank = own.begin / group.part; own.begin < own.end && rank * group.part < own.end; ++rank) {
                const int number = static_cast<int>(rank);
                add(tensors[k], shift(intersect(own, group.partition(number)), -own.begin), number);
            }
        }
    }

    std::vector<Piece> take() { return std::move(pieces_); }

private:
    void add(std::uint32_t t, Interval range, int rank) {
        const Tensor& tensor = content_.tensors[t];
        if (range.empty()) return;
        const Slicing slicing = unsliced(tensor.shape);
        append_range(pieces_, {.tensor = t, .rank = rank}, itemsize(tensor.dtype), range, tensor.shape,
                     slicing.blocks[0]);
    }

    const Content& content_;
    int ranks_;
    std::vector<Piece> pieces_;
};

}  // namespace

std::vector<Piece> partition_shares(const Content& content, std::span<const Role> roles) {
    struct Groups {
        Numbers decaying, others;
    };
    std::map<Role, Groups> groups;
    for (std::uint32_t t = 0; t < roles.size(); ++t) {
        Groups& of_role = groups[roles[t]];
        (content.tensors[t].shape.size() > 1 ? of_role.decaying : of_role.others).push_back(t);
    }
    PartitionShares shares{content};
    for (const auto& [role, of_role] : groups) {
        if (role == Role::extra || (role == Role::weight && content.layout.zero < 3)) continue;
        for (const Numbers& tensors : {of_role.decaying, of_role.others}) {
            if (content.layout.zero == 3)
                shares.split_each(tensors);
            else
                shares.split_group(tensors);
        }
    }
    return shares.take();
}

}  // namespace tpx::formats::deepspeed
