// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "lib/layout/config.hpp"
#include "lib/layout/layout.hpp"

#include <string>
#include <string_view>
#include <vector>

namespace tpx::formats::megatron {

/// The number of decoder layers of each model chunk, from a text for Megatron's `--pipeline-model-parallel-layout` such
/// as "Et*3|(tt|)*29,m|L": chunks are in layer order, and each t is a layer. Throws Error if the text is malformed.
std::vector<int> parse_stages(std::string_view text);

/// The number of the model chunk, in layer order, that has the layers for multi-token prediction: the last one unless
/// the pipeline layout text in args places them elsewhere.
int chunk_of_prediction(const Config& args, const Layout& layout);

/// The pipeline layout text of `stages`, with `prediction` layers for multi-token prediction in the last chunk.
std::string stages_text(const std::vector<int>& stages, int prediction);

/// Sets in `layout` how `layers` layers are split across model chunks if args describe uneven stages, count the
/// embedding or the loss as a layer, or contain a pipeline layout text. Throws Error if they cannot be split this way.
void set_stages(const Config& args, int layers, Layout& layout);

}  // namespace tpx::formats::megatron
