// SPDX-License-Identifier: Apache-2.0
#include "formats/files/profile/logs/framework_log.hpp"
#include "formats/files/profile/logs/log_text.hpp"

#include <algorithm>
#include <array>
#include <optional>
#include <string_view>
#include <utility>

// nanotron prints its settings as Python's pprint does, one or several on a line, "parallelism=ParallelismArgs(dp=2,";
// then "mbs: 2 | grad_accum: 4 | ... | global_batch_size: 16 | ...", and for each step "iteration: 5 / 100 |
// consumed_tokens: 5.24M | time_per_iteration_ms: 1.23K | ...", with three digits and a suffix. Until 2024, the time
// was called elapsed_time_per_iteration_ms. The global_batch_size of a step is in samples or in tokens, depending on
// the version, so it is not used.

namespace tpx::formats {
namespace {

// The number after `mark`, with the suffix that nanotron's human_format adds; G was replaced by B.
std::optional<double> human_number(std::string_view text, std::string_view mark) {
    const std::size_t at = text.find(mark);
    const auto number = number_after(text, mark);
    if (!number) return std::nullopt;
    text.remove_prefix(at + mark.size());
    text.remove_prefix(std::min(text.find_first_not_of(" 0123456789.e+-"), text.size()));
    constexpr std::array<std::pair<char, double>, 5> suffixes{
        {{'K', 1e3}, {'M', 1e6}, {'G', 1e9}, {'B', 1e9}, {'T', 1e12}}};
    for (const auto& [letter, factor] : suffixes)
        if (text.starts_with(letter)) return *number * factor;
    return number;
}

class NanotronLog final : public FrameworkLog {
public:
    bool starts_run(const LogLine& line) const override { return contains(line.text, "Config(general=GeneralArgs("); }

    void read(const LogLine& line, LogRun& run) override {
        if (starts_run(line)) is_in_settings_ = true;
        if (contains(line.text, "Model Config:")) is_in_settings_ = false;
        if (is_in_settings_) read_settings(line.text, run);
        read_batch(line.text, run);
        if (!contains(line.text, "iteration: ")) return;
        if (const auto bytes = human_number(line.text, "| cuda_max_memory_reserved:")) run.add_memory(*bytes);
        for (const char* mark : {"| time_per_iteration_ms:", "| elapsed_time_per_iteration_ms:"})
            if (const auto milliseconds = human_number(line.text, mark))
                run.add_step(StepReport::seconds, number_after(line.text, "iteration:"), *milliseconds / 1000);
    }

private:
    using enum LogField;

    // All "key=value" on a line; the value ends at a comma or parenthesis.
    void read_settings(std::string_view text, LogRun& run) {
        while (!text.empty()) {
            const std::size_t end = std::min(text.find_first_of(",()"), text.size());
            std::string_view setting = text.substr(0, end);
            text.remove_prefix(std::min(end + 1, text.size()));
            setting.remove_prefix(std::min(setting.find_first_not_of(' '), setting.size()));
            const std::size_t equals = setting.find('=');
            if (equals != setting.npos) read_setting(setting.substr(0, equals), setting.substr(equals + 1), run);
        }
    }

    void read_setting(std::string_view key, std::string_view value, LogRun& run) {
        constexpr std::array<std::pair<std::string_view, LogField>, 5> degrees{
            {{"dp", dp}, {"pp", pp}, {"tp", tp}, {"context_parallel_size", cp}, {"zero_stage", zero}}};
        const auto degree = std::ranges::find(degrees, key, &decltype(degrees)::value_type::first);
        const auto count = number_after(value, "");
        if (degree != degrees.end() && count) run.set(degree->second, *count);
        if (key == "tp_mode" && contains(value, "REDUCE_SCATTER")) run.set(sequence, "1");
        if (key == "recompute_layer" && value == "True") run.set(recompute, "full");
        if (key != "expert_parallel_size" || !count || *count <= 1) return;
        run.set(ep, *count);
        run.set(dp, run.number(dp, 1) * *count);  // expert parallelism needs GPUs of its own
    }

    static void read_batch(std::string_view text, LogRun& run) {
        if (!contains(text, "mbs: ") || !contains(text, "| grad_accum: ")) return;
        constexpr std::array<std::pair<std::string_view, LogField>, 4> marks{{{"mbs:", micro_batch},
                                                                              {"| grad_accum:", accumulation},
                                                                              {"| global_batch_size:", batch},
                                                                              {"| sequence_length:", sequence_length}}};
        for (const auto& [mark, field] : marks)
            if (const auto count = number_after(text, mark)) run.set(field, *count);
    }

    bool is_in_settings_ = false;
};

}  // namespace

std::unique_ptr<FrameworkLog> nanotron_log() { return std::make_unique<NanotronLog>(); }

}  // namespace tpx::formats
