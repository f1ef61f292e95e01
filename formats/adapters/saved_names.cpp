// SPDX-License-Identifier: Apache-2.0
#include "formats/adapters/saved_names.hpp"

#include <array>
#include <string_view>

namespace tpx::formats {
namespace {

/// How a name in memory begins, and how the saved one does instead. Source: transformers 5.23, conversion_mapping.py.
struct Beginning {
    std::string_view in_memory;
    std::string_view saved;
};

constexpr std::array<Beginning, 11> beginnings{{{"model.language_model.", "language_model.model."},
                                                {"model.language_model.", "model."},
                                                {"model.text_model.", "text_model.model."},
                                                {"lm_head.", "language_model.lm_head."},
                                                {"lm_head.", "text_model.lm_head."},
                                                {"model.", "backbone."},
                                                {"model.visual.", "visual."},
                                                {"model.vision_tower.", "vision_tower."},
                                                {"model.audio_tower.", "audio_tower."},
                                                {"model.vqmodel.", "vqmodel."},
                                                {"model.multi_modal_projector.", "multi_modal_projector."}}};

}  // namespace

SavedNames::SavedNames(const Source& base) : base_{base} {
    const auto& tensors = base.checkpoint.catalogue.tensors;
    for (std::uint32_t t = 0; t < tensors.size(); ++t) numbers_.emplace(tensors[t].name, t);
}

std::string SavedNames::of(const std::string& in_memory) const {
    if (numbers_.contains(in_memory)) return in_memory;
    std::string saved = by_rules(in_memory);
    if (numbers_.contains(saved)) return saved;
    for (const auto& [old, beginning] : beginnings) {
        if (!in_memory.starts_with(old)) continue;
        saved = by_rules(std::string{beginning} + in_memory.substr(old.size()));
        if (numbers_.contains(saved)) return saved;
    }
    return in_memory;
}

/// The stored tensor that is the same part of the model as `in_memory` by the rules of the base's family.
std::string SavedNames::by_rules(const std::string& in_memory) const {
    const Reading& reading = base_.reading;
    if (numbers_.contains(in_memory) || reading.dialect == nullptr) return in_memory;
    for (const Rule& rule : reading.dialect->rules) {
        const auto indices = rule.name.match(in_memory);
        if (!indices) continue;
        for (std::uint32_t t = 0; t < reading.meanings.size(); ++t) {
            const Meaning& meaning = reading.meanings[t];
            if (meaning.kind == Meaning::Kind::parameter && meaning.role == Role::weight &&
                meaning.rule->expression.parts == rule.expression.parts && meaning.indices == *indices)
                return base_.checkpoint.catalogue.tensors[t].name;
        }
    }
    return in_memory;
}

}  // namespace tpx::formats
