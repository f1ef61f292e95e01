// SPDX-License-Identifier: Apache-2.0
#include "formats/left_out.hpp"

#include "formats/megatron/rng_states.hpp"
#include "formats/roles.hpp"
#include "formats/state/carried.hpp"

#include <fmt/format.h>

#include <algorithm>

namespace tpx::formats {

void note_left_out(const Source& source, const Target& target, Conversion& out) {
    const auto say = [&](std::size_t count, std::string_view what, const std::string& example) {
        if (count > 0)
            out.notes.push_back(
                fmt::format("left out: {} {} ('{}'{})", count, what, example, count > 1 ? ", ..." : ""));
    };
    const auto& left = out.expressed.left_out;
    say(left.size(), "tensors that are no parameters or that the target does not store", left.empty() ? "" : left[0]);
    const bool to_megatron = target.format == Format::torch_dist || target.format == Format::megatron;
    if (source.checkpoint.rank_files && !to_megatron && target.format != Format::dcp)
        out.notes.push_back("left out: the states of random number generators, if there are any");
    if (to_megatron) {
        const megatron::RngStates states{source.checkpoint};
        if (!states.empty() && !states.has_all(target.layout))
            out.notes.push_back(
                "ranks that the source has not continue the random numbers of other ranks, with seeds of their own");
    }
    const auto& companions = source.checkpoint.companions;
    if (is_torch(target.format))
        say(companions.size(), "files for which one file has no place",
            companions.empty() ? "" : companions[0].string());
    std::vector<Object> objects = source.checkpoint.catalogue.objects;
    if (out.content.adam)
        std::erase_if(objects, [](const Object& o) { return o.name.find("param_groups.") != std::string::npos; });
    const bool same_kind = (to_megatron && is_megatron(source.checkpoint.format)) ||
                           (is_deepspeed(target.format) && is_deepspeed(source.checkpoint.format));
    const bool restored = to_megatron && source.checkpoint.format == Format::dcp;
    if (!same_kind && !restored && !is_torch(target.format) && target.format != Format::dcp) {
        const std::vector<std::string> keys = state_keys(source.checkpoint);
        say(keys.size(), fmt::format("values beside the tensors, which {} cannot hold", name(target.format)),
            keys.empty() ? "" : keys[0]);
    }
    // Megatron's own formats take over states of random number generators, which DCP keeps, and extra states without
    // content.
    constexpr std::uint64_t empty_extra_state = 1500;
    if (to_megatron)
        std::erase_if(objects, [](const Object& object) {
            return object.name.find("._extra_state/") != object.name.npos && object.length < empty_extra_state;
        });
    if (to_megatron || target.format == Format::dcp)
        std::erase_if(objects, [](const Object& object) { return object.name.starts_with("rng_state/"); });
    const bool unpacked = is_torch(target.format) && source.checkpoint.format == Format::dcp;
    if (source.checkpoint.format != target.format && !unpacked)
        say(objects.size(), fmt::format("objects that {} cannot hold", name(target.format)),
            objects.empty() ? "" : objects[0].name);
}

}  // namespace tpx::formats
