// SPDX-License-Identifier: Apache-2.0
#include "formats/dialect_choice.hpp"

#include "formats/roles.hpp"
#include "lib/core/error.hpp"

namespace tpx::formats {
namespace {

std::string_view home_dialect(Format format) {
    switch (format) {
        case Format::safetensors:
        case Format::universal:
            return "hf";
        case Format::dcp:
            return "titan";
        case Format::torch_dist:
        case Format::megatron:
            return "mcore";
        case Format::torch:
        case Format::torch_legacy:
        case Format::deepspeed:
        case Format::hdf5:
        case Format::keras:
        case Format::keras_legacy:
        case Format::gguf:
            break;
    }
    return "";
}

}  // namespace

const Dialect* choose_dialect(const Source& source, const Target& target, std::vector<std::string>& notes) {
    const Reading& reading = source.reading;
    const bool asked = !target.dialect.empty();
    if (target.dialect == "keep" || (is_torch(target.format) && !asked)) return nullptr;
    if (is_deepspeed(target.format) && is_deepspeed(source.checkpoint.format)) {
        if (asked) throw Error{Exit::usage, "--dialect: {} keeps the module's names", name(target.format)};
        return nullptr;
    }
    const std::string_view wanted = asked ? std::string_view{target.dialect} : home_dialect(target.format);
    if (wanted.empty()) return nullptr;
    if (!asked && source.checkpoint.format == target.format) return nullptr;
    const bool must = asked || is_megatron(target.format);
    // Megatron's own names in another container may lack what its files have around them: padding, args, groups.
    const bool whole = is_megatron(source.checkpoint.format) || source.checkpoint.common;
    if (reading.family && reading.dialect->name == wanted && (!is_megatron(target.format) || whole)) return nullptr;
    if (reading.family && (reading.complete || must)) {
        if (const Dialect* dialect = reading.family->dialect(wanted)) return dialect;
        if (must) throw Error{Exit::usage, "family '{}' has no {} names", reading.family->name, wanted};
        notes.push_back(fmt::format("names are kept: family '{}' has no {} names", reading.family->name, wanted));
        return nullptr;
    }
    if (must) throw failure("{} names cannot be made: {}", wanted, reading.why_not);
    notes.push_back(reading.family
                        ? "names are kept: the dimensions that other names need are not known (--config gives them)"
                        : fmt::format("names are kept: {}", reading.why_not));
    return nullptr;
}

}  // namespace tpx::formats
