// SPDX-License-Identifier: Apache-2.0
#include "formats/hdf5/keras_classes.hpp"

#include <nlohmann/json.hpp>

#include <algorithm>
#include <array>

namespace tpx::formats::hdf5 {
namespace {

/// A variable that a layer has unless the setting `unless_false` is false.
struct Row {
    std::string_view name;
    std::string_view unless_false = "";
    bool trainable = true;
};

constexpr std::array dense{Row{"kernel"}, Row{"bias", "use_bias"}};
constexpr std::array separable{Row{"depthwise_kernel"}, Row{"pointwise_kernel"}, Row{"bias", "use_bias"}};
constexpr std::array cell{Row{"kernel"}, Row{"recurrent_kernel"}, Row{"bias", "use_bias"}};
constexpr std::array embedding{Row{"embeddings"}};
constexpr std::array reversible{Row{"embeddings"}, Row{"reverse_embeddings"}};
constexpr std::array batch{Row{"gamma", "scale"}, Row{"beta", "center"}, Row{"moving_mean", "", false},
                           Row{"moving_variance", "", false}};
constexpr std::array centered{Row{"gamma", "scale"}, Row{"beta", "center"}};
constexpr std::array rms{Row{"scale"}};
constexpr std::array alpha{Row{"alpha"}};
constexpr std::array attention{Row{"scale", "use_scale"}};
constexpr std::array statistics{Row{"mean", "", false}, Row{"variance", "", false}, Row{"count", "", false}};

struct Rows {
    std::string_view kind;
    std::span<const Row> rows;
    std::size_t optional = 0;  ///< how many at the end may be missing without a setting for it
};

constexpr std::array classes{Rows{"Dense", dense},
                             Rows{"EinsumDense", dense, 1},
                             Rows{"Conv1D", dense},
                             Rows{"Conv2D", dense},
                             Rows{"Conv3D", dense},
                             Rows{"Conv1DTranspose", dense},
                             Rows{"Conv2DTranspose", dense},
                             Rows{"Conv3DTranspose", dense},
                             Rows{"DepthwiseConv1D", dense},
                             Rows{"DepthwiseConv2D", dense},
                             Rows{"SeparableConv1D", separable},
                             Rows{"SeparableConv2D", separable},
                             Rows{"SimpleRNNCell", cell},
                             Rows{"GRUCell", cell},
                             Rows{"LSTMCell", cell},
                             Rows{"ConvLSTMCell", cell},
                             Rows{"Embedding", embedding},
                             Rows{"ReversibleEmbedding", reversible, 1},
                             Rows{"BatchNormalization", batch},
                             Rows{"LayerNormalization", centered},
                             Rows{"GroupNormalization", centered},
                             Rows{"RMSNormalization", rms},
                             Rows{"PReLU", alpha},
                             Rows{"Attention", attention},
                             Rows{"AdditiveAttention", attention},
                             Rows{"Normalization", statistics}};

constexpr std::array simple_parts{ClassPart{"cell", "SimpleRNNCell"}};
constexpr std::array gru_parts{ClassPart{"cell", "GRUCell"}};
constexpr std::array lstm_parts{ClassPart{"cell", "LSTMCell"}};
constexpr std::array conv_lstm_parts{ClassPart{"cell", "ConvLSTMCell"}};
constexpr std::array attention_parts{ClassPart{"query_dense", "EinsumDense"}, ClassPart{"key_dense", "EinsumDense"},
                                     ClassPart{"gate_dense", "EinsumDense"}, ClassPart{"value_dense", "EinsumDense"},
                                     ClassPart{"output_dense", "EinsumDense"}};

struct Parts {
    std::string_view kind;
    std::span<const ClassPart> parts;
};

constexpr std::array composites{Parts{"SimpleRNN", simple_parts},
                                Parts{"GRU", gru_parts},
                                Parts{"LSTM", lstm_parts},
                                Parts{"ConvLSTM1D", conv_lstm_parts},
                                Parts{"ConvLSTM2D", conv_lstm_parts},
                                Parts{"ConvLSTM3D", conv_lstm_parts},
                                Parts{"MultiHeadAttention", attention_parts},
                                Parts{"GroupQueryAttention", attention_parts}};

constexpr std::array<std::string_view, 2> adam{"momentum", "velocity"};
constexpr std::array<std::string_view, 1> momentum{"momentum"};

bool is_false(const nlohmann::json& config, std::string_view key) {
    const auto found = config.find(key);
    return found != config.end() && found->is_boolean() && !found->get<bool>();
}

}  // namespace

std::optional<std::vector<ClassVariable>> class_variables(std::string_view kind, const nlohmann::json& config,
                                                          std::size_t count) {
    const auto found = std::ranges::find(classes, kind, &Rows::kind);
    if (found == classes.end()) return std::nullopt;
    std::vector<ClassVariable> variables;
    for (const Row& row : found->rows) {
        if (row.unless_false.empty() || !is_false(config, row.unless_false))
            variables.push_back({row.name, row.trainable});
    }
    if (count > variables.size() || count + found->optional < variables.size()) return std::nullopt;
    variables.resize(count);
    return variables;
}

bool always_has_variables(std::string_view kind, const nlohmann::json& config) {
    const auto found = std::ranges::find(classes, kind, &Rows::kind);
    const auto is_there = [&](const Row& row) { return row.unless_false.empty(); };
    const bool has_own = found != classes.end() && std::ranges::any_of(found->rows, is_there);
    return (has_own && !class_variables(kind, config, 0)) || !class_parts(kind).empty();
}

std::span<const ClassPart> class_parts(std::string_view kind) {
    const auto found = std::ranges::find(composites, kind, &Parts::kind);
    return found == composites.end() ? std::span<const ClassPart>{} : found->parts;
}

std::span<const std::string_view> class_slots(std::string_view kind) {
    if (kind == "Adam" || kind == "AdamW" || kind == "Lamb") return adam;
    if (kind == "SGD" || kind == "Lion") return momentum;
    return {};
}

}  // namespace tpx::formats::hdf5
