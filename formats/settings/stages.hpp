// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "lib/layout/config.hpp"
#include "lib/layout/layout.hpp"

#include <string>
#include <string_view>
#include <vector>

namespace tpx::formats::megatron {

/// How many decoder layers each model chunk has by a text of Megatron's `--pipeline-model-parallel-layout`, such as
/// "Et*3|(tt|)*29,m|L": chunks in the order of their layers, t a layer. Throws Error when it is not of the form.
std::vector<int> stages_of_text(std::string_view text);

/// The number of the model chunk, in the order of layers, that has the layers for multi-token prediction: the last one
/// unless args' layout in words puts them elsewhere.
int chunk_of_prediction(const Config& args, const Layout& layout);

/// `stages` as a text of that kind, with `prediction` layers for multi-token prediction in the last chunk.
std::string text_of_stages(const std::vector<int>& stages, int prediction);

/// Sets in `layout` how `layers` are dealt to the model chunks, as args tell of uneven stages, of embedding or loss
/// counting as a layer, or of a layout in words. Throws Error when they cannot be dealt so.
void set_stages(const Config& args, int layers, Layout& layout);

}  // namespace tpx::formats::megatron
