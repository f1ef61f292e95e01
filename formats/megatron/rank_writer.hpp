// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "formats/encodings/torch/archive_writer.hpp"
#include "formats/encodings/torch/value.hpp"
#include "formats/megatron/rank_parts.hpp"
#include "lib/core/catalogue.hpp"

#include <filesystem>
#include <string>
#include <vector>

namespace tpx::formats::megatron {

/// A file of torch.save in the making, whose tensors are pieces of a draft.
class ArchiveDraft {
public:
    /// Storages of `carried`, values of which go into the file, are taken from it.
    explicit ArchiveDraft(const torch::Archive* carried = nullptr) : carried_{carried} {}

    /// Storages that values carried over refer to are `given`.
    explicit ArchiveDraft(torch::Contents given) : contents_{std::move(given)} {}

    torch::Document& document() { return document_; }
    torch::Contents& contents() { return contents_; }

    /// A tensor of `shape` in C order, in a storage of its own, made of `parts`.
    torch::Value tensor(DType dtype, const Shape& shape, const std::vector<RankPart>& parts);

    /// A tensor of no axes that holds `value`.
    torch::Value scalar(float value);

    /// Adds the file to `draft`, with everything that `root` refers to; pieces are rank `rank`'s.
    void finish(torch::Value root, const std::filesystem::path& path, int rank, Draft& draft) const;

private:
    struct Storage {
        std::string key;
        DType dtype;
        std::vector<RankPart> parts;
    };
    std::string next_key();

    const torch::Archive* carried_ = nullptr;
    torch::Document document_;
    std::vector<Storage> storages_;
    torch::Holes holes_;
    torch::Contents contents_;
};

/// The optimizer of a rank's parameters, as entry "optimizer" of model_optim_rng.pt, from the groups of parameters of
/// `common`, as many as the parameters of `all` ranks make. Moments and masters are in it unless it is distributed.
torch::Value optimizer_value(ArchiveDraft& file, const std::vector<RankParameter>& parameters, const RankParts& all,
                             torch::Value common, const Config& args, const Layout& layout);

/// The content of distrib_optim.pt for `directory`.
torch::Value distributed_value(ArchiveDraft& file, const RankDirectory& directory,
                               const std::vector<RankParameter>& parameters, const Config& args, const Layout& layout);

/// Whether any parameter has optimizer state.
bool has_state(const std::vector<RankParameter>& parameters);

}  // namespace tpx::formats::megatron
