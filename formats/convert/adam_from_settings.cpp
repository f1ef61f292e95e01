// SPDX-License-Identifier: Apache-2.0
#include "formats/convert/adam_from_settings.hpp"

#include "lib/core/error.hpp"
#include "lib/core/file.hpp"
#include "lib/layout/dims.hpp"

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
    throw Error{Exit::usage, "--set {}: not a number", key};
}

/// Sets the steps of `adam` from scalar f32 tensors. Returns false if there are none.
bool read_step_tensors(Source& source, Adam& adam) {
    const Catalogue& catalogue = source.checkpoint.catalogue;
    std::vector<std::uint32_t> pieces;
    for (std::uint32_t p = 0; p < catalogue.pieces.size(); ++p) {
        const Piece& piece = catalogue.pieces[p];
        const Tensor& tensor = catalogue.tensors[piece.tensor];
        if (role_of(source, piece.tensor) == Role::step && tensor.dtype == DType::f32 && tensor.shape.empty() &&
            !catalogue.files[piece.file].coding)
            pieces.push_back(p);
    }
    locate(source.checkpoint, pieces);
    std::optional<std::int64_t> first;
    for (const std::uint32_t p : pieces) {
        const Piece& piece = catalogue.pieces[p];
        const std::filesystem::path path = catalogue.path(piece.file);
        float value = -1;
        read_at(open_file(path, O_RDONLY), piece.offset, std::as_writable_bytes(std::span{&value, 1}), path);
        if (!(value >= 0 && value < 1e15F)) continue;
        const std::int64_t step = std::llround(value);
        if (first && step != *first) adam.other_step = step;
        if (!first) first = step;
    }
    adam.step = first.value_or(0);
    return first.has_value();
}

/// Sets the step, which no tensor records, to the user's or else to the iteration.
void guess_step(const Source& source, const Config& settings, Adam& adam, std::vector<std::string>& notes) {
    if (const auto given = integer(settings, "step")) {
        adam.step = *given;
    } else if (const auto iteration = source.checkpoint.iteration) {
        adam.step = *iteration;
        notes.push_back(fmt::format(
            "the optimizer's step is not stored; using the iteration, {} (--set step=N overrides it)", adam.step));
    } else {
        throw Error{Exit::usage,
                    "the optimizer's step, which Adam's bias correction needs, is unknown; pass --set step=N, or "
                    "--drop optimizer to omit optimizer state"};
    }
}

}  // namespace

std::optional<Adam> adam_from_settings(Source& source, const Config& settings, std::vector<std::string>& notes) {
    if (!settings.contains("lr")) return std::nullopt;
    Adam adam;
    AdamSettings& all = adam.matrices;
    all.lr = all.initial_lr = number(settings, "lr", 0);
    all.beta1 = number(settings, "adam_beta1", all.beta1);
    all.beta2 = number(settings, "adam_beta2", all.beta2);
    all.eps = number(settings, "adam_eps", all.eps);
    adam.vectors = all;
    all.weight_decay = number(settings, "weight_decay", 0);
    if (!read_step_tensors(source, adam)) guess_step(source, settings, adam, notes);
    return adam;
}

}  // namespace tpx::formats
