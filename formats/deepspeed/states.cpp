// SPDX-License-Identifier: Apache-2.0
#include "formats/deepspeed/states.hpp"

#include "formats/deepspeed/catalogue_builder.hpp"
#include "lib/core/error.hpp"

#include <bit>
#include <cstring>

namespace tpx::formats::deepspeed {
namespace {

using torch::Kind;
using torch::Value;

void add_state(const torch::Archive& archive, std::string_view key, Value value, GroupState& group) {
    in_context(
        [&] { return fmt::format("state '{}'", key); },
        [&] {
            // Ignores numbers and None: they are settings, not state of elements.
            if (!value.is(Kind::object)) {
                if (value.is(Kind::list) || value.is(Kind::dict) || value.is(Kind::tuple))
                    throw failure("expected a tensor or a number, found {}", value.describe());
                return;
            }
            const torch::StoredTensor tensor = plain_tensor(archive, value);
            if (tensor.shape.size() > 1 || (tensor.shape.size() == 1 && tensor.strides[0] != 1 && tensor.shape[0] > 1))
                throw failure("a tensor of shape {}, which is not a flat vector", to_string(tensor.shape));
            (tensor.shape.empty() ? group.scalar : group.flat).push_back({std::string{key}, tensor});
        });
}

void add_states(const torch::Archive& archive, Value states, GroupState& group) {
    for (const auto& [key, value] : states.entries()) add_state(archive, key.as_string(), value, group);
}

std::vector<GroupState> masters(const torch::Archive& archive, Value list) {
    std::vector<GroupState> groups(list.items().size());
    for (std::size_t g = 0; g < groups.size(); ++g) add_state(archive, "fp32", list.items()[g], groups[g]);
    return groups;
}

/// Adds the states of a torch optimizer by parameter number; each group is one parameter.
void add_numbered(const torch::Archive& archive, Value optimizer, std::vector<GroupState>& groups) {
    for (const auto& [key, value] : optimizer.at("state").entries()) {
        const std::int64_t number = key.as_int();
        if (number < 0 || number >= std::ssize(groups))
            throw failure("state of parameter {}, but there are {} groups", number, groups.size());
        in_context([&] { return fmt::format("group {}", number); },
                   [&, &states = value] { add_states(archive, states, groups[number]); });
    }
}

}  // namespace

std::vector<GroupState> partition_states(const torch::Archive& archive, Value optimizer) {
    std::vector<GroupState> groups = masters(archive, optimizer.at("single_partition_of_fp32_groups"));
    const Value base = optimizer.at("base_optimizer_state");
    if (base.is(Kind::list)) {
        if (base.items().size() > groups.size())
            throw failure("state of {} groups, but master weights of {}", base.items().size(), groups.size());
        for (std::size_t g = 0; g < base.items().size(); ++g) add_states(archive, base.items()[g], groups[g]);
    } else if (!base.is_none()) {
        add_numbered(archive, base, groups);
    }
    return groups;
}

std::vector<GroupState> subgroup_states(const torch::Archive& archive, Value optimizer) {
    std::vector<GroupState> groups = masters(archive, optimizer.at("fp32_flat_groups"));
    add_numbered(archive, optimizer.at("optimizer_state_dict"), groups);
    return groups;
}

std::string scalar_text(const torch::Archive& archive, const torch::StoredTensor& tensor) {
    const std::string bytes = archive.elements(tensor);
    if (tensor.dtype == DType::f32 && bytes.size() == sizeof(float)) {
        float value = 0;
        std::memcpy(&value, bytes.data(), sizeof value);
        return fmt::format("{}", value);
    }
    std::string text = "0x";
    for (const char byte : bytes) text += fmt::format("{:02x}", static_cast<unsigned char>(byte));
    return text;
}

}  // namespace tpx::formats::deepspeed
