// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "formats/checkpoint.hpp"
#include "formats/megatron/rank_files.hpp"

#include <cstdint>
#include <map>
#include <string>
#include <vector>

namespace tpx::formats::megatron {

/// A box of a stored tensor inside a rank's own tensor.
struct RankPart {
    std::uint32_t tensor = 0;  ///< index into the content's tensors
    Box box;
    Index begin = 0;  ///< position of its first element in the rank's tensor, in elements
    Strides strides;
};

/// A tensor of a new rank file: the parts that make it up, for each role.
struct RankParameter {
    std::string name;  ///< layers and experts count from 0
    int chunk = 0;
    Shape shape;
    std::map<Role, DType> dtypes;                 ///< by role
    std::map<Role, std::vector<RankPart>> parts;  ///< by role
};

/// The parameters of each directory of `content.layout`, in the order of Megatron's modules within each chunk. `args`
/// are those of the new checkpoint.
class RankParts {
public:
    RankParts(const Content& content, const Config& args);

    const Spelling& spelling() const { return spelling_; }

    /// Whether any rank has parameters of experts (or others, unless `experts`) with (or without) weight decay.
    bool any(bool experts, bool decays) const;

    /// Whether parameters have master weights.
    bool masters() const;

    std::vector<RankParameter> of(const RankDirectory& directory);

private:
    struct Stored {
        std::uint32_t number = 0;
        Role role = Role::weight;
        RankName name;
        bool stacked = false;
        bool experts = false;
        int leading = 0;
        int chunk = 0;  ///< of a tensor outside of the stack: its model chunk, counted over all stages in layer order
        std::map<int, std::vector<Box>> boxes;  ///< by rank of the tensor-parallel group
    };
    struct Chunk {
        int first = 0;  ///< number of the first layer
        int count = 0;
    };
    class Builder;

    void add(std::uint32_t tensor);
    void check_stacks() const;
    int chunk_of(std::uint32_t tensor, std::string_view name) const;
    const std::vector<Box>& boxes(Stored& stored, int rank);

    const Content& content_;
    const Config& args_;
    Spelling spelling_;
    std::vector<Stored> stored_;
    std::vector<Chunk> chunks_;
    Index experts_ = 0;
    int prediction_ = 0;  // the chunk of multi-token prediction; -1: none
};

}  // namespace tpx::formats::megatron
