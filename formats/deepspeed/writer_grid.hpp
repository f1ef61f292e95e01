// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "formats/deepspeed/catalogue_builder.hpp"
#include "formats/deepspeed/model_file.hpp"
#include "formats/deepspeed/step_files.hpp"

#include <filesystem>
#include <map>
#include <string>
#include <vector>

namespace tpx::formats::deepspeed {

/// A trainable or frozen parameter, its pipeline stage and its slices on tensor ranks.
struct Parameter {
    int stage = 0;
    std::vector<Shape> locals;  ///< by tensor rank
    Slicing slicing;
    bool frozen = false;
};

/// The ranks that wrote a step folder, and the contents of their model files.
struct WriterGrid {
    StepFiles files;
    int tp = 1;
    int pp = 1;
    int dp = 1;
    int ep = 1;  ///< number of data ranks that experts are split across; known after reading the optimizer
    bool zero3 = false;
    std::vector<ModelFile> models;  ///< by model-parallel rank, stages slowest; under ZeRO 3, the files of data rank 0
    UniversalInfo info;
    std::map<std::string, Parameter, std::less<>> parameters;  ///< experts by their names on expert rank 0
    std::vector<std::string> notes;

    int rank(int mp, int d) const { return (mp / tp * dp + d) * tp + mp % tp; }
    const ModelFile& model(int stage, int tensor_rank) const { return models[stage * tp + tensor_rank]; }
};

/// Reads the model files of a step folder. Throws Error if one is missing or they contradict each other.
WriterGrid read_writer_grid(const std::filesystem::path& folder);

}  // namespace tpx::formats::deepspeed
