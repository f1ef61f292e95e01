// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "formats/files/profile/logs/log_line.hpp"
#include "formats/files/profile/logs/log_run.hpp"

#include <memory>
#include <span>
#include <string_view>

namespace tpx::formats {

/// Reads what one framework prints. There is a file for each framework beside this one.
class FrameworkLog {
public:
    virtual ~FrameworkLog() = default;
    /// Whether a job prints `line` when it starts.
    virtual bool starts_run(const LogLine& line) const = 0;
    /// Adds what `line` records to `run`; other frameworks' lines change nothing.
    virtual void read(const LogLine& line, LogRun& run) = 0;
};

std::unique_ptr<FrameworkLog> megatron_log();       ///< Megatron-LM, Megatron Bridge
std::unique_ptr<FrameworkLog> torchtitan_log();     ///< torchtitan
std::unique_ptr<FrameworkLog> deepspeed_log();      ///< DeepSpeed, Megatron-DeepSpeed
std::unique_ptr<FrameworkLog> lightning_log();      ///< PyTorch Lightning, and NeMo, which is based on it
std::unique_ptr<FrameworkLog> trainer_log();        ///< the Trainer of Hugging Face
std::unique_ptr<FrameworkLog> trainer_state_log();  ///< its trainer_state.json
std::unique_ptr<FrameworkLog> colossal_log();       ///< Colossal-AI
std::unique_ptr<FrameworkLog> torchtune_log();      ///< torchtune
std::unique_ptr<FrameworkLog> nanotron_log();       ///< nanotron
std::unique_ptr<FrameworkLog> litgpt_log();         ///< LitGPT
std::unique_ptr<FrameworkLog> composer_log();       ///< MosaicML's Composer, LLM Foundry
std::unique_ptr<FrameworkLog> metrics_log();        ///< metrics that trackers store: W&B, CSV, LLaMA-Factory

/// What the value of a setting is.
enum class SettingKind {
    number,  ///< a whole number; None, null and "auto" are unknown
    flag,    ///< true or false
    word     ///< a word; None and null are unknown
};

/// A setting as a framework prints it, and the field that has its value.
struct LogSetting {
    std::string_view key;
    LogField field;
    SettingKind kind = SettingKind::number;
};

/// Sets the field of the setting that `line` has, if it is one of `settings`. In a list of all arguments the last value
/// counts, in other forms the first one: there a key can occur again, such as the batch size of a validation.
void read_setting(std::span<const LogSetting> settings, const LogLine& line, LogRun& run);

/// Whether `text` is "True", "true" or "1".
bool is_true_text(std::string_view text);

}  // namespace tpx::formats
