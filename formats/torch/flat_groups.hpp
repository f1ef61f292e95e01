// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "formats/encodings/torch/archive.hpp"
#include "lib/state/role.hpp"

#include <cstddef>
#include <map>
#include <string>
#include <vector>

namespace tpx::formats {

/// A part of a flat tensor: the state of one parameter.
struct FlatPart {
    std::size_t tensor = 0;  ///< number of the tensor
    Role role = Role::state;
    std::string weight;     ///< name of the parameter's weight among the tensors
    std::size_t group = 0;  ///< number of its group
};

/// The tensors of a training script's file, and which of them are parts of flat ones.
struct TrainingTensors {
    std::vector<torch::NamedTensor> tensors;
    std::vector<FlatPart> parts;                              ///< ascending by tensor number
    std::map<std::string, std::vector<std::string>> vectors;  ///< names of the parts in order, by flat tensor
};

/// The tensors of `archive`. DeepSpeed's FP16_Optimizer (FusedAdam without ZeRO) stores the master weights and the
/// state of each parameter group as one vector, and does not record which parameters it contains. They are inferred:
/// the parameters whose weights are the rounded master weights, in the model's order. Vectors are replaced by one
/// tensor for each parameter, called VECTOR.PARAMETER; they remain if the parameters are ambiguous.
TrainingTensors training_tensors(const torch::Archive& archive);

}  // namespace tpx::formats
