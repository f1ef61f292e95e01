// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "lib/core/name_list.hpp"

#include <filesystem>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <utility>

namespace tpx::formats::deepspeed {

/// The parsed name of a file in DeepSpeed's step folder.
struct FileName {
    enum class Kind {
        model,             ///< [zero_pp_rank_D_]mp_rank_M_model_states.pt
        optimizer,         ///< [bf16_|fp16_]zero_pp_rank_D_mp_rank_M_optim_states.pt
        layer,             ///< layer_L[-model_T]-model_states.pt
        expert,            ///< layer_L_expert_E_mp_rank_M_model_states.pt
        expert_optimizer,  ///< expp_rank_E_mp_rank_M_optim_states.pt
    };
    Kind kind = Kind::model;
    int dp = -1;  ///< data-parallel rank, which DeepSpeed calls pp_rank; -1: not in the name
    int mp = 0;   ///< model-parallel rank, stage * tp + tensor rank; for a layer, the tensor rank
    int layer = -1;
    int expert = -1;

    friend bool operator==(const FileName&, const FileName&) = default;
};

/// Unset if the name is not DeepSpeed's.
std::optional<FileName> parse_file_name(std::string_view name);

/// The files of a step folder by kind and rank.
struct StepFiles {
    std::map<std::pair<int, int>, std::filesystem::path> models;                   ///< by mp, then dp (-1 below ZeRO 3)
    std::map<std::pair<int, int>, std::filesystem::path> optimizers;               ///< by mp, then dp
    std::map<std::pair<int, int>, std::filesystem::path> layers;                   ///< by layer, then tensor rank
    std::map<std::pair<std::pair<int, int>, int>, std::filesystem::path> experts;  ///< by layer and expert, then mp
};

/// Lists a step folder. Throws Error if two files belong to the same rank, if there is no model file, or for expert
/// optimizer files, which only runs without ZeRO write.
StepFiles list_step(const std::filesystem::path& folder);

/// "data rank 1 and model-parallel rank 0".
std::string rank_name(int mp, int dp);

/// "the optimizer file of data rank 1 and model-parallel rank 0 is missing", for `kind` "optimizer" and the ranks whose
/// files are missing.
std::string missing_files_text(std::string_view kind, const NameList& ranks);

}  // namespace tpx::formats::deepspeed
