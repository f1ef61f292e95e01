// SPDX-License-Identifier: Apache-2.0
#include "formats/profile/training_log.hpp"

#include "formats/profile/log_text.hpp"

#include <algorithm>
#include <array>
#include <charconv>
#include <map>
#include <optional>

namespace tpx::formats {
namespace {

// Something that a log says, and which quantity of a run it is; "micro", "sequence_length" and "steps" are none, but
// others follow from them.
struct Mark {
    std::string_view text;
    std::string_view quantity;
};

// Arguments as Megatron-LM and DeepSpeed list them: "  tensor_model_parallel_size ...................... 2".
constexpr std::array<Mark, 17> arguments{{{"tensor_model_parallel_size", "tp"},
                                          {"pipeline_model_parallel_size", "pp"},
                                          {"virtual_pipeline_model_parallel_size", "vpp"},
                                          {"context_parallel_size", "cp"},
                                          {"data_parallel_size", "dp"},
                                          {"world_size", "gpus"},
                                          {"global_batch_size", "batch"},
                                          {"train_batch_size", "batch"},
                                          {"micro_batch_size", "micro"},
                                          {"train_micro_batch_size_per_gpu", "micro"},
                                          {"gradient_accumulation_steps", "accumulation"},
                                          {"use_distributed_optimizer", "zero"},
                                          {"zero_optimization_stage", "zero"},
                                          {"recompute_granularity", "recompute"},
                                          {"sequence_parallel", "sequence"},
                                          {"optimizer_cpu_offload", "offload"},
                                          {"seq_length", "sequence_length"}}};

// Numbers that other lines say: those of Megatron-LM, NeMo, torchtitan and the Hugging Face Trainer.
constexpr std::array<Mark, 9> sayings{{{"| global batch size:", "batch"},
                                       {"| global_batch_size:", "batch"},
                                       {", global batch size ", "batch"},
                                       {", gradient accumulation steps ", "accumulation"},
                                       {", sequence length ", "sequence_length"},
                                       {"Total train batch size (w. parallel, distributed & accumulation) =", "batch"},
                                       {"Gradient Accumulation steps =", "accumulation"},
                                       {"Instantaneous batch size per device =", "micro"},
                                       {"Total optimization steps =", "steps"}}};

// Seconds of a step: the number behind `text` times `unit`.
struct Timing {
    std::string_view text;
    double unit;
};
constexpr std::array<Timing, 4> timings{{{"elapsed time per iteration (ms):", 1e-3},
                                         {"elapsed_time_per_iteration_ms=", 1e-3},
                                         {"train_step_timing in s:", 1},
                                         {" iter time (s):", 1}}};

// Bytes in use, the number behind `text` times `unit`.
constexpr std::array<Timing, 4> memories{
    {{"max reserved:", 1 << 20}, {"MaxMemAllocated=", 1 << 30}, {"peak_memory_usage:", 1}, {"  memory:", 1 << 30}}};

double median(std::vector<double> values) {
    const auto middle = values.begin() + static_cast<std::ptrdiff_t>(values.size() / 2);
    std::ranges::nth_element(values, middle);
    return *middle;
}

class LogReader {
public:
    void read(const std::string& line) {
        for (const Mark& argument : arguments) note_argument(line, argument);
        for (const Mark& saying : sayings)
            if (const auto value = number_after(line, saying.text)) note(saying.quantity, *value);
        note_mesh(line);
        note_memory(line);
        note_step(line);
    }

    Table table(std::string_view file) {
        complete();
        Table table{std::string{file}, {}, {{1, {}}}};
        const auto add = [&](std::string_view column, std::string cell) {
            table.columns.emplace_back(column);
            table.rows[0].cells.push_back(std::move(cell));
        };
        for (const auto& [quantity, value] : values_)
            if (quantity != "micro" && quantity != "sequence_length" && quantity != "steps") add(quantity, value);
        if (memory_ > 0) add("memory", fmt::format("{:.0f}", memory_));
        if (const std::optional<double> step = seconds(file))
            add("seconds", fmt::format("{:g}", *step));
        else
            add("rate", fmt::format("{:g}", typical(samples_)));
        return table;
    }

private:
    void note(std::string_view quantity, double value) {
        values_.insert_or_assign(std::string{quantity}, fmt::format("{:.0f}", value));
    }

    double value(const char* quantity, double otherwise = 0) const {
        const auto found = values_.find(quantity);
        double number = otherwise;
        if (found != values_.end())
            std::from_chars(found->second.data(), found->second.data() + found->second.size(), number);
        return number;
    }

    void note_argument(std::string_view line, const Mark& argument) {
        const std::size_t at = line.find(argument.text);
        if (at == line.npos || (at > 0 && line[at - 1] != ' ' && line[at - 1] != ':')) return;
        const std::string_view rest = line.substr(at + argument.text.size());
        if (!rest.starts_with(" .") && !rest.starts_with("  ")) return;
        const std::size_t begin = rest.find_first_not_of(" .");
        if (begin == rest.npos) return;
        const std::string_view text = rest.substr(begin, rest.find_last_not_of(" \r") + 1 - begin);
        const std::string quantity{argument.quantity};
        if (text == "True" || text == "False") {
            if (text == "True") values_.insert_or_assign(quantity, std::string(1, '1'));
        } else if (text != "None") {
            values_[quantity] = text;
        }
    }

    // torchtitan's mesh: "parallelism: pp=1, dp_replicate=1, dp_shard=8, ..." or "['dp_shard', 'tp'], [4, 2]".
    void note_mesh(const std::string& line) {
        if (line.find("mesh with parallelism: ") != line.npos) {
            for (const char* degree : {"pp", "tp", "cp"})
                if (const auto size = number_after(line, fmt::format(" {}=", degree))) note(degree, *size);
            const double shards = number_after(line, " dp_shard=").value_or(1);
            note("dp", shards * number_after(line, " dp_replicate=").value_or(1));
            if (shards > 1) note("zero", 3);
        }
        if (line.find("-D device mesh with [") != line.npos) note_listed_mesh(line);
        for (const char* kind : {"full", "selective"})
            if (line.find(fmt::format("Applied {} activation checkpointing", kind)) != line.npos)
                values_["recompute"] = kind;
    }

    void note_listed_mesh(std::string_view line) {
        line.remove_prefix(line.find("mesh with [") + 11);
        std::string_view sizes = line.substr(std::min(line.find('[') + 1, line.size()));
        double replicas = 1;
        for (std::string_view names = line.substr(0, line.find(']')); names.find('\'') != names.npos;) {
            names.remove_prefix(names.find('\'') + 1);
            const std::string_view name = names.substr(0, names.find('\''));
            names.remove_prefix(std::min(name.size() + 1, names.size()));
            const double size = number_after(sizes, "").value_or(1);
            sizes.remove_prefix(std::min(sizes.find(' ') + 1, sizes.size()));
            if (name.starts_with("dp"))
                replicas *= size;
            else if (name == "tp" || name == "pp" || name == "cp")
                note(name, size);
            if (name.starts_with("dp_shard") && size > 1) note("zero", 3);
        }
        note("dp", replicas);
    }

    void note_memory(std::string_view line) {
        for (const Timing& known : memories)
            if (const auto bytes = number_after(line, known.text)) memory_ = std::max(memory_, *bytes * known.unit);
    }

    void note_step(std::string_view line) {
        for (const Timing& known : timings)
            if (const auto time = number_after(line, known.text)) return steps_.push_back(*time * known.unit);
        if (const auto rate = number_after(line, "CurrSamplesPerSec=")) return samples_.push_back(*rate);
        if (const auto rate = number_after(line, "  tps:")) return tokens_.push_back(*rate);
        const auto forward = number_after(line, "| fwd:"), backward = number_after(line, "| bwd:");
        const auto step = number_after(line, "| step:");
        if (forward && backward && step) return parts_.push_back((*forward + *backward + *step) / 1e3);
        if (const auto mean = number_after(line, "|  run_training_batch")) whole_ = *mean;
        if (const auto runtime = number_after(line, "'train_runtime':"); runtime && value("steps") > 0)
            whole_ = *runtime / value("steps");
        if (!is_training_bar(line)) return;
        if (const auto seconds = number_before(line, "s/it"))
            bars_.push_back(*seconds);
        else if (const auto rate = number_before(line, "it/s"))
            bars_.push_back(1 / *rate);
    }

    // Replicas are the GPUs that are left; their samples are cut into micro-batches: for the pipeline, or gathered
    // where there is none.
    void complete() {
        const double others = value("tp", 1) * value("pp", 1) * value("cp", 1);
        const double batch = value("batch"), micro = value("micro");
        if (!values_.contains("dp") && value("gpus") > 0)
            note("dp", value("gpus") / others);
        else if (!values_.contains("dp") && batch > 0 && micro > 0 && others == 1)
            note("dp", batch / micro / std::max(1.0, value("accumulation", 1)));
        if (!(batch > 0) || !(micro > 0) || values_.contains("accumulation")) return;
        const double count = batch / std::max(1.0, value("dp", 1)) / micro;
        if (count > 1) note(value("pp", 1) > 1 ? "micro_batches" : "accumulation", count);
    }

    // What is left of `times` after warming up, in the middle.
    static double typical(std::vector<double> times) {
        const std::size_t warm_up = std::min(std::max<std::size_t>(2, times.size() / 10), times.size() - 1);
        times.erase(times.begin(), times.begin() + static_cast<std::ptrdiff_t>(warm_up));
        return median(std::move(times));
    }

    // Of a step, by the most exact of the times that the log has; nothing if it has samples per second alone.
    std::optional<double> seconds(std::string_view file) const {
        const double tokens = value("batch") * value("sequence_length");
        const double gpus = value("dp", 1) * value("tp", 1) * value("pp", 1) * value("cp", 1);
        if (steps_.size() >= 3) return typical(steps_);
        if (samples_.size() >= 3 && !(value("batch") > 0)) return std::nullopt;
        if (samples_.size() >= 3) return value("batch") / typical(samples_);
        if (tokens_.size() >= 3 && tokens > 0) return tokens / (typical(tokens_) * gpus);
        if (parts_.size() >= 3) return typical(parts_);
        if (bars_.size() >= 3) return typical(bars_);
        if (whole_) return whole_;
        if (tokens_.size() >= 3)
            throw failure("{}: it has tokens per second, but not the batch size and sequence length of a step", file);
        throw failure("{}: {} steps with times are in it; at least 3 are needed", file,
                      std::max({steps_.size(), samples_.size(), tokens_.size(), parts_.size(), bars_.size()}));
    }

    std::vector<double> steps_, samples_, tokens_, parts_, bars_;
    std::optional<double> whole_;
    double memory_ = 0;
    std::map<std::string, std::string> values_;
};

}  // namespace

Table parse_training_log(std::string_view text, std::string_view file) {
    LogReader reader;
    while (!text.empty()) {
        const std::size_t end = std::min(text.find_first_of("\n\r"), text.size());  // progress bars end lines with \r
        reader.read(without_colours(text.substr(0, end)));
        text.remove_prefix(std::min(end + 1, text.size()));
    }
    return reader.table(file);
}

}  // namespace tpx::formats
