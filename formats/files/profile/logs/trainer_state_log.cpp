// SPDX-License-Identifier: Apache-2.0
#include "formats/files/profile/logs/framework_log.hpp"
#include "formats/files/profile/logs/log_text.hpp"
#include "formats/files/profile/logs/metric_record.hpp"
#include "formats/settings/bare_floats.hpp"

#include <nlohmann/json.hpp>

#include <cmath>
#include <optional>
#include <utility>
#include <vector>

// trainer_state.json of Hugging Face's Trainer has a key on each line, sorted: "global_step", then "log_history" with
// {"epoch", "loss", "step"} or {"eval_loss", "eval_runtime"} and, after the last step, {"train_loss", "train_runtime"}.

namespace tpx::formats {
namespace {

// all_results.json and train_results.json.
constexpr std::string_view only_averages =
    "no step times: the averages in this file include evaluations and, if the job was resumed, steps of earlier runs; "
    "pass the trainer_state.json in the same folder";

class TrainerStateLog final : public FrameworkLog {
public:
    bool starts_run(const LogLine&) const override { return false; }

    void read(const LogLine& line, LogRun& run) override {
        if (is_trainer_state(line.text)) return read_whole(line.text, run);
        if (line.text.starts_with('{') && contains(line.text, "\"train_steps_per_second\":"))
            run.set_reason(only_averages);
        if (line.key.empty() || !line.text.starts_with('"')) return;
        if (line.key == "log_history") begin_history(run);
        if (const auto value = number_after(line.value, "")) read_value(line.key, *value, run);
    }

private:
    // A file that another program has written again, on one line.
    void read_whole(std::string_view text, LogRun& run) {
        const nlohmann::json state = nlohmann::json::parse(strict_json(text), nullptr, false);
        if (!state.is_object() || !state.contains("log_history")) return;
        const auto read_numbers = [&](const nlohmann::json& object) {
            for (const auto& [key, value] : object.items())
                if (value.is_number()) read_value(key, value.get<double>(), run);
        };
        read_numbers(state);
        begin_history(run);
        for (const nlohmann::json& entry : state["log_history"]) read_numbers(entry);
        if (const auto size = state.find("train_batch_size"); size != state.end() && size->is_number())
            read_value("train_batch_size", size->get<double>(), run);
    }

    void begin_history(LogRun& run) {
        is_in_history_ = true;
        run.set_reason(
            "no step times: log_history has no train_runtime, which the Trainer adds after the last step; pass the "
            "trainer_state.json beside the final model, the console log, or trainer_log.jsonl of LLaMA-Factory");
    }

    void read_value(std::string_view key, double value, LogRun& run) {
        if (key == "global_step" && !is_in_history_) steps_ = value;
        if (key == "train_steps_per_second" && !is_in_history_) run.set_reason(only_averages);
        if (!is_in_history_) return;
        if (key == "eval_runtime") evaluation_ = value;
        if (key == "loss") logged_ = value;
        if (key == "step") end_entry(value);
        if (key == "train_loss") loss_ = value;
        if (key == "train_runtime") runtime_ = value;
        if (key == "train_steps_per_second") read_times(value * runtime_, run);
        if (key == "train_batch_size") {  // of one process; DeepSpeed's setting of this name is of all
            run.forget(LogField::batch);
            run.set(LogField::micro_batch, value);
        }
    }

    // A logged loss is the mean of the steps since the last one.
    void end_entry(double step) {
        if (const auto seconds = std::exchange(evaluation_, std::nullopt)) evaluations_.emplace_back(step, *seconds);
        const auto loss = std::exchange(logged_, std::nullopt);
        if (!loss) return;
        sum_ += *loss * (step - last_);
        last_ = step;
    }

    // Before transformers 5, train_loss is the sum since a restart, divided by all steps, and the rate counts all
    // steps.
    bool has_loss_of_part() const {
        constexpr double tolerance = 0.1;
        return loss_ && last_ > 0 && sum_ > 0 && *loss_ < (1 - tolerance) * sum_ / last_;
    }

    // `rated`: the steps that the Trainer divides by train_runtime. They are those since a restart in transformers 5.
    void read_times(double rated, LogRun& run) const {
        constexpr double rounding = 0.05;
        const bool is_part = rated < (1 - rounding) * steps_;
        if (!is_part && has_loss_of_part())
            return run.set_reason(
                "no step times: train_runtime covers only the steps since the job was resumed, whose number the file "
                "does not have; pass the console log");
        const double steps = is_part ? std::round(rated) : steps_;
        double seconds = runtime_;
        for (const auto& [step, evaluation] : evaluations_)
            if (step > steps_ - steps) seconds -= evaluation;
        if (steps > 0) run.set_mean(StepReport::seconds, seconds / steps, steps);
    }

    bool is_in_history_ = false;
    double steps_ = 0;
    double runtime_ = 0;                                  // seconds
    std::optional<double> evaluation_, logged_;           // of an entry whose step follows
    std::vector<std::pair<double, double>> evaluations_;  // step and seconds
    double sum_ = 0, last_ = 0;                           // of the losses of all steps up to the last logged one
    std::optional<double> loss_;
};

}  // namespace

std::unique_ptr<FrameworkLog> trainer_state_log() { return std::make_unique<TrainerStateLog>(); }

}  // namespace tpx::formats
