// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "formats/adapters/adapter_settings.hpp"
#include "formats/checkpoint.hpp"

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace tpx::formats {

/// A weight of the base that an adapter changes, and the numbers of the adapter's tensors for it. A has the shape
/// [rank, in] and B the shape [out, rank]; for an embedding, `in` is the size of the vocabulary.
struct AdaptedWeight {
    std::string name;                        ///< of the base's tensor: "model.layers.0.self_attn.q_proj.weight"
    std::optional<std::uint32_t> a;          ///< lora_A or lora_embedding_A
    std::optional<std::uint32_t> b;          ///< lora_B or lora_embedding_B
    std::optional<std::uint32_t> magnitude;  ///< DoRA's lora_magnitude_vector
    bool embedding = false;
    bool targets_parameter = false;  ///< of PEFT's target_parameters: the module has several, or no layer of its own
    bool transposed = false;         ///< the base's tensor is [in, out]
    Index rank = 0;
    double scale = 1;
    /// Of a stack of experts (PEFT's target_parameters): the rows of A are those of one expert after the other, the
    /// columns of B those of all experts for one rank after the other.
    Index experts = 1;
    Index expert = 0;     ///< number of the expert that the base tensor (or piece) holds
    Index first_row = 0;  ///< row of B, or if transposed column of A, for the first row of the base tensor

    /// Whether it is a stack of experts, whose name is that of the module.
    bool stacked() const { return experts > 1; }
    std::string_view module() const { return std::string_view{name}.substr(0, name.rfind('.')); }
};

/// A tensor of the base that an adapter replaces as a whole: one of modules_to_save, or a trained bias.
struct ReplacedTensor {
    std::string name;  ///< of the base's tensor
    std::uint32_t tensor = 0;
    bool in_place = false;  ///< the weight of an adapted module, which stays tied to other weights
};

/// A LoRA adapter that PEFT saved.
struct Adapter {
    AdapterSettings settings;
    Checkpoint checkpoint;  ///< its tensors
    std::vector<AdaptedWeight> weights;
    std::vector<ReplacedTensor> replaced;

    const Tensor& tensor(std::uint32_t number) const { return checkpoint.catalogue.tensors[number]; }
    /// The shape that the base's tensor must have.
    Shape shape_of(const AdaptedWeight& weight) const;
};

/// Whether `checkpoint` is a LoRA adapter itself: PEFT's adapter_model.safetensors beside an adapter_config.json.
bool is_adapter(const Checkpoint& checkpoint);

/// Reads the adapter in `directory`. Throws Error "FILE: tensor 'NAME': ..." for tensors that do not belong to an
/// adapter of its settings or do not fit each other.
Adapter read_adapter(const std::filesystem::path& directory);

/// The names of the parameters that an adapter of `module` may be for: "mlp.experts.gate_up_proj" of target_parameters
/// is "model.layers.0.mlp.experts.gate_up_proj" of "model.layers.0.mlp.experts". Where several parameters of a module
/// are adapted, PEFT adds `.base_layer` to its name.
std::vector<std::string> parameters_of(const AdapterSettings& settings, std::string_view module);

/// The number of experts in a stack with `rows` rows of A, if each has rank `rank`; 0 if `rank` does not divide `rows`.
Index experts_in(Index rows, Index rank);

/// Sets rank, number of experts and scale of `weight` to those of the stack `parameter`, which has `rows` rows of A.
void set_stack(const AdapterSettings& settings, std::string_view parameter, Index rows, AdaptedWeight& weight);

/// "LoRA of 'meta-llama/Llama-3.1-8B', rank 16, alpha 32, of q_proj, v_proj; 64 weights".
std::string describe(const Adapter& adapter);

/// The families whose rules match the names of all weights that `adapter` changes.
std::vector<std::string> families_of(const Adapter& adapter, const Families& families);

}  // namespace tpx::formats
