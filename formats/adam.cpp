// SPDX-License-Identifier: Apache-2.0
#include "formats/adam.hpp"

#include "formats/conversion.hpp"
#include "formats/megatron/rank_state.hpp"
#include "formats/torch/archive.hpp"
#include "lib/core/error.hpp"
#include "lib/core/file.hpp"

#include <fcntl.h>
#include <algorithm>

#include <array>
#include <cmath>
#include <cstring>

namespace tpx::formats {
namespace {

using torch::Kind;
using torch::Value;

/// Sets what a framework calls `key`; others are passed over.
void set(Adam& adam, std::string_view key, Value value) {
    if (key == "lr") adam.lr = value.as_real();
    if (key == "initial_lr" || key == "max_lr") adam.initial_lr = value.is_none() ? 0 : value.as_real();
    if (key == "eps") adam.eps = value.as_real();
    if (key == "weight_decay") adam.weight_decay = std::max(adam.weight_decay, value.as_real());
    if (key == "step" && value.is(Kind::integer)) adam.step = value.as_int();
    if (key != "betas") return;
    const auto betas = value.items();
    if (betas.size() != 2) throw failure("param_groups: betas of {} values", betas.size());
    adam.beta1 = betas[0].as_real();
    adam.beta2 = betas[1].as_real();
}

std::optional<Adam> of_common(Value common) {
    const auto states = megatron::optimizers_of(common);
    if (states.empty()) return std::nullopt;
    Adam adam;
    for (const Value group : states[0].groups) {
        for (const torch::Entry& entry : group.entries()) {
            if (entry.key.is(Kind::string)) set(adam, entry.key.as_string(), entry.value);
        }
    }
    return adam;
}

/// Calls `read` with the archive at a place of one of the catalogue's files.
template <class Read>
void with_archive(const Catalogue& catalogue, std::uint32_t file, std::uint64_t offset, std::uint64_t length,
                  Read&& read) {
    const std::filesystem::path path = catalogue.path(file);
    const Fd fd = open_file(path, O_RDONLY);
    read(torch::Archive::open(torch::FileRange{&fd, path, offset, length}));
}

/// The number that a step's tensor holds.
std::int64_t step_in(const torch::Archive& archive) {
    const auto tensor = archive.tensor(archive.root());
    if (!tensor || tensor->dtype != DType::f32 || volume(tensor->shape) != 1)
        throw failure("the optimizer's step is no tensor of one f32");
    float value = 0;
    std::memcpy(&value, archive.elements(*tensor).data(), sizeof value);
    if (!(value >= 0 && value < 1e15F)) throw failure("the optimizer's step is {}", value);
    return std::llround(value);
}

std::optional<Adam> of_objects(const Source& source) {
    const Catalogue& catalogue = source.checkpoint.catalogue;
    static constexpr std::array<std::string_view, 5> keys{"lr", "initial_lr", "betas", "eps", "weight_decay"};
    std::optional<Adam> adam;
    std::array<bool, keys.size()> seen{};
    for (const Object& object : catalogue.objects) {
        const std::size_t dot = object.name.rfind('.');
        const auto key = std::ranges::find(keys, std::string_view{object.name}.substr(dot + 1));
        if (dot == std::string::npos || key == keys.end() || object.name.find("param_groups.") == std::string::npos)
            continue;
        const auto k = static_cast<std::size_t>(key - keys.begin());
        if (seen[k] && (*key != "weight_decay" || adam->weight_decay > 0)) continue;
        seen[k] = true;
        if (!adam) adam.emplace();
        in_context([&] { return fmt::format("object '{}'", object.name); },
                   [&] {
                       with_archive(catalogue, object.file, object.offset, object.length,
                                    [&](const torch::Archive& archive) { set(*adam, *key, archive.root()); });
                   });
    }
    if (!adam) return std::nullopt;
    for (std::size_t p = 0; p < catalogue.pieces.size(); ++p) {
        const Piece& piece = catalogue.pieces[p];
        if (source.reading.meanings[piece.tensor].role != "step" || source.checkpoint.archives.empty()) continue;
        with_archive(catalogue, piece.file, piece.offset, source.checkpoint.archives[p],
                     [&](const torch::Archive& archive) { adam->step = step_in(archive); });
        break;
    }
    return adam;
}

}  // namespace

std::optional<Adam> adam_of(Source& source) {
    const Checkpoint& checkpoint = source.checkpoint;
    std::optional<Adam> adam;
    if (checkpoint.adam)
        adam = checkpoint.adam;
    else if (checkpoint.common)
        adam = of_common(*checkpoint.common);
    else if (checkpoint.format == Format::dcp)
        adam = of_objects(source);
    if (adam && adam->initial_lr == 0) adam->initial_lr = adam->lr;
    return adam;
}

}  // namespace tpx::formats
