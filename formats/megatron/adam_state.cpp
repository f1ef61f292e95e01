// SPDX-License-Identifier: Apache-2.0
#include "formats/megatron/adam_state.hpp"

#include <array>
#include <vector>

namespace tpx::formats::megatron {
namespace {

using torch::Document;
using torch::Entry;
using torch::Value;

class AdamState {
public:
    /// `min_lr` is the learning rate at the end of the schedule.
    AdamState(Document& document, const Adam& adam, Value min_lr) : document_{document}, adam_{adam}, min_lr_{min_lr} {}

    /// The state of one optimizer. Experts have only matrices, all of which decay.
    Value optimizer(bool experts) {
        std::vector<Value> groups{group(experts, true)};
        if (!experts) groups.push_back(group(experts, false));
        return dict({{"optimizer", dict({{"param_groups", document_.list(groups)}})}});
    }

    /// A constant schedule whose steps are counted from here. tpx does not know the job's schedule, so the job has to
    /// override this one.
    Value schedule() {
        const Value decay = document_.real(adam_.matrices.weight_decay);
        return dict({{"max_lr", document_.real(adam_.matrices.initial_lr)},
                     {"lr_warmup_steps", document_.integer(0)},
                     {"num_steps", document_.integer(0)},
                     {"lr_decay_style", document_.string("constant")},
                     {"lr_decay_steps", document_.integer(1)},
                     {"min_lr", min_lr_},
                     {"start_wd", decay},
                     {"end_wd", decay},
                     {"wd_incr_style", document_.string("constant")},
                     {"wd_incr_steps", document_.integer(1)}});
    }

    Value dict(std::initializer_list<std::pair<const char*, Value>> items) {
        std::vector<Entry> entries;
        for (const auto& [key, value] : items) entries.push_back({document_.string(key), value});
        return document_.dict(entries);
    }

private:
    Value group(bool experts, bool decays) {
        const AdamSettings& settings = decays ? adam_.matrices : adam_.vectors;
        const std::array betas{document_.real(settings.beta1), document_.real(settings.beta2)};
        return dict({{"is_expert_parallel", Value::boolean(experts)},
                     {"default_config", Value::boolean(true)},
                     {"wd_mult", document_.real(decays ? 1 : 0)},
                     {"lr_mult", document_.real(1)},
                     {"is_decoupled_lr", Value::boolean(false)},
                     {"max_lr", document_.real(settings.initial_lr)},
                     {"min_lr", min_lr_},
                     {"lr", document_.real(settings.lr)},
                     {"bias_correction", Value::boolean(true)},
                     {"betas", document_.tuple(betas)},
                     {"eps", document_.real(settings.eps)},
                     {"weight_decay", document_.real(decays ? settings.weight_decay : 0)},
                     {"step", document_.integer(adam_.step)}});
    }

    Document& document_;
    const Adam& adam_;
    Value min_lr_;
};

}  // namespace

Value with_adam(Document& document, Value common, const Content& content, bool two) {
    if (!content.adam) return common;
    // A checkpoint that was converted to DCP and back still has its schedule.
    const auto known = common.find("opt_param_scheduler");
    const bool has_schedule = known && known->is(torch::Kind::dict);
    const auto min_lr = has_schedule ? known->find("min_lr") : std::nullopt;
    AdamState state{document, *content.adam, min_lr.value_or(document.real(0))};
    Value optimizer = state.optimizer(false);
    if (two) {
        const std::array both{Entry{document.integer(0), optimizer}, Entry{document.integer(1), state.optimizer(true)}};
        optimizer = document.dict(both);
    }
    common = document.with_key(common, "optimizer", optimizer);
    if (has_schedule) return common;
    return document.with_key(common, "opt_param_scheduler", state.schedule());
}

}  // namespace tpx::formats::megatron
