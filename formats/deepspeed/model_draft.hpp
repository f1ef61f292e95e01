// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "formats/deepspeed/step_job.hpp"

#include <map>
#include <string>
#include <vector>

namespace tpx::formats::deepspeed {

/// Adds everything except the optimizer to a new step: model files, layers of pipelines, experts. Weights whose split
/// does not change are copied with their files; others come from the content.
class ModelDraft {
public:
    explicit ModelDraft(StepJob& job) : job_{job} {}

    /// Adds the model file of a rank; below ZeRO 3, data ranks share one file.
    void add(int stage, int t, int d);
    void add_layers();
    void add_experts();

private:
    /// The tensors of the current file that come from the content.
    class Slices;

    torch::Value edited_root(const ModelFile& model, int stage, int t, int d, torch::Document& document) const;
    torch::Value with_weights(const ModelFile& model, torch::Value root, Slices& slices) const;
    torch::Value with_frozen(const ModelFile& model, torch::Value root, Slices& slices, int d) const;
    void cut_layer(int layer, const std::filesystem::path& path, int t);
    void make_layers();
    std::filesystem::path layer_file(int layer, int t) const;

    StepJob& job_;
};

}  // namespace tpx::formats::deepspeed
