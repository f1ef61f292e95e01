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

/// Drafts a torch.save file whose tensors are pieces of a Draft.
class ArchiveDraft {
public:
    /// `carried` contains the storages of values that are copied from it into the file.
    explicit ArchiveDraft(const torch::Archive* carried = nullptr) : carried_{carried} {}

    /// `given` contains the storages of values that are copied into the file.
    explicit ArchiveDraft(torch::Contents given) : contents_{std::move(given)} {}

    torch::Document& document() { return document_; }
    torch::Contents& contents() { return contents_; }

    /// A tensor of `shape` in C order, with its own storage, made of `parts`.
    torch::Value tensor(DType dtype, const Shape& shape, const std::vector<RankPart>& parts);

    /// An f32 scalar tensor with this value.
    torch::Value scalar(float value);

    /// Adds the file to `draft`, with everything that `root` refers to; its pieces belong to rank `rank`.
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

/// The entry "optimizer" of model_optim_rng.pt for a rank's parameters. Its settings come from the param_groups of
/// `common`; it has every group that the parameters of `all` ranks require. It contains moments and masters unless the
/// optimizer is distributed.
torch::Value optimizer_value(ArchiveDraft& file, const std::vector<RankParameter>& parameters, const RankParts& all,
                             torch::Value common, const Config& args, const Layout& layout);

/// The content of distrib_optim.pt for `directory`.
torch::Value distributed_value(ArchiveDraft& file, const RankDirectory& directory,
                               const std::vector<RankParameter>& parameters, const Config& args, const Layout& layout);

/// Whether any parameter has optimizer state.
bool has_state(const std::vector<RankParameter>& parameters);

}  // namespace tpx::formats::megatron
