// SPDX-License-Identifier: Apache-2.0
#include "formats/given_adam.hpp"

#include "lib/core/error.hpp"
#include "lib/core/file.hpp"

#include <fcntl.h>

#include <cmath>
#include <span>

namespace tpx::formats {
namespace {

double number(const Config& settings, const std::string& key, double otherwise) {
    const auto found = settings.find(key);
    if (found == settings.end()) return otherwise;
    if (const auto* whole = std::get_if<std::int64_t>(&found->second)) return static_cast<double>(*whole);
    if (const auto* real = std::get_if<double>(&found->second)) return *real;
    throw Error{Exit::usage, "--set {}: is no number", key};
}

/// The first step that is a tensor of one f32.
std::optional<std::int64_t> stored_step(const Source& source) {
    const Catalogue& catalogue = source.checkpoint.catalogue;
    for (const Piece& piece : catalogue.pieces) {
        const Tensor& tensor = catalogue.tensors[piece.tensor];
        const bool is_step = !source.checkpoint.roles.empty() && source.checkpoint.roles[piece.tensor] == "step";
        if (!is_step || tensor.dtype != DType::f32 || !tensor.shape.empty()) continue;
        const std::filesystem::path path = catalogue.path(piece.file);
        float value = -1;
        read_at(open_file(path, O_RDONLY), piece.offset, std::as_writable_bytes(std::span{&value, 1}), path);
        if (value >= 0 && value < 1e15F) return std::llround(value);
    }
    return std::nullopt;
}

}  // namespace

std::optional<Adam> given_adam(const Source& source, const Config& settings) {
    if (!settings.contains("lr")) return std::nullopt;
    Adam adam;
    AdamSettings& all = adam.matrices;
    all.lr = all.initial_lr = number(settings, "lr", 0);
    all.beta1 = number(settings, "adam_beta1", all.beta1);
    all.beta2 = number(settings, "adam_beta2", all.beta2);
    all.eps = number(settings, "adam_eps", all.eps);
    adam.vectors = all;
    all.weight_decay = number(settings, "weight_decay", 0);
    adam.step = stored_step(source).value_or(source.checkpoint.iteration.value_or(0));
    return adam;
}

}  // namespace tpx::formats
