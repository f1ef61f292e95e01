// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "formats/driver.hpp"
#include "formats/megatron/buffer_shares.hpp"
#include "formats/megatron/conversion.hpp"
#include "formats/megatron/dist_checkpointing.hpp"
#include "formats/megatron/fit_masters.hpp"
#include "formats/megatron/model_check.hpp"
#include "formats/state/common_objects.hpp"

namespace tpx::formats::megatron {

/// `driver` with the traits and functions that all Megatron formats share.
constexpr Driver with_shared_traits(Driver driver) {
    driver.framework = "Megatron";
    driver.written = WritableFrom::any;
    driver.knows_optimizer = true;
    driver.keeps_values = true;
    driver.is_resharded = true;
    driver.dialect = "mcore";
    driver.model_dialect = "mcore";
    driver.cutting = {.equal = true, .by_layer = true};
    driver.has_args = true;
    driver.keeps_masters = true;
    driver.check_model_layout = check_model_layout;
    driver.note_dropped = note_dropped;
    driver.complete_target = complete_target;
    driver.restore = restore_common;
    driver.complete_config = complete_config;
    driver.adapt_states = adapt_states;
    driver.make_args = args_of_target;
    driver.note_new_state = note_new_rng;
    driver.model_difference = model_difference;
    driver.state_shares = [](const Content& content, const Config& args, std::span<const Role>) {
        return buffer_shares(content, args);
    };
    return driver;
}

}  // namespace tpx::formats::megatron
