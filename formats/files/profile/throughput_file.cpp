// SPDX-License-Identifier: Apache-2.0
#include "formats/files/profile/throughput_file.hpp"

#include "formats/files/toml_text.hpp"
#include "lib/core/error.hpp"
#include "lib/core/file.hpp"
#include "lib/core/units.hpp"

#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <functional>
#include <map>
#include <span>

namespace tpx::formats {
namespace {

constexpr std::array<std::string_view, 6> sections{"model", "job", "parameters", "covariance", "deviations", "fit"};

using Setter = std::function<void(const toml::node&)>;
using Section = std::map<std::string, Setter, std::less<>>;

// Reads the values of one file; what it throws names the line.
class Values {
public:
    explicit Values(std::string_view file) : file_{file} {}

    template <class... Args>
    Error toml_error(const toml::node& node, fmt::format_string<Args...> format, Args&&... args) const {
        Error error{Exit::usage, format, std::forward<Args>(args)...};
        error.prepend(fmt::format("{}:{}", file_, node.source().begin.line));
        return error;
    }

    double number(const toml::node& node, double least, double most = 1e30) const {
        const auto value = node.is_number() ? node.value<double>() : std::nullopt;
        if (!value || !std::isfinite(*value) || *value < least)
            throw toml_error(node, "a number of at least {:g} was expected", least);
        if (*value > most) throw toml_error(node, "a number of at most {:g} was expected", most);
        return *value;
    }

    int whole(const toml::node& node, int least, int most) const {
        const double value = number(node, least, most);
        if (value != std::floor(value)) throw toml_error(node, "a whole number was expected");
        return static_cast<int>(value);
    }

    bool truth(const toml::node& node) const {
        const auto value = node.value_exact<bool>();
        if (!value) throw toml_error(node, "true or false was expected");
        return *value;
    }

    // Bytes as a number, or as text such as "80GB".
    double bytes(const toml::node& node) const {
        if (const auto text = node.value_exact<std::string_view>()) {
            try {
                return static_cast<double>(parse_bytes(*text));
            } catch (const Error& error) {
                throw toml_error(node, "{}", error.what());
            }
        }
        return number(node, 0);
    }

    // Bytes per second as a number, or as text such as "100 Gbit/s".
    double rate(const toml::node& node) const {
        if (const auto text = node.value_exact<std::string_view>()) {
            try {
                return parse_rate(*text);
            } catch (const Error& error) {
                throw toml_error(node, "{}", error.what());
            }
        }
        return number(node, 1);
    }

    Setter into(double& value, double least) const {
        return [this, &value, least](const toml::node& node) { value = number(node, least); };
    }

    Setter into(std::optional<double>& value, double least) const {
        return [this, &value, least](const toml::node& node) { value = number(node, least); };
    }

    void read(const toml::table& table, std::string_view name, const Section& section) const {
        for (const auto& [key, value] : table) {
            const auto found = section.find(key.str());
            if (found == section.end()) throw toml_error(value, "unknown key '{}' in [{}]", key.str(), name);
            found->second(value);
        }
    }

private:
    std::string_view file_;
};

Section model_section(const Values& values, ThroughputModel& model) {
    ModelSize& size = model.size;
    return {{"name", [&](const toml::node& node) { size.name = node.value_or(std::string{}); }},
            {"parameters", values.into(size.parameters, 1)},
            {"active_parameters", values.into(size.active_parameters, 1)},
            {"layers", [&](const toml::node& node) { size.layers = values.whole(node, 1, 1'000'000); }},
            {"hidden", values.into(size.hidden, 1)},
            {"heads", values.into(size.heads, 1)},
            {"sequence", values.into(size.sequence, 1)},
            {"vocabulary", values.into(size.vocabulary, 0)},
            {"flash_attention", [&](const toml::node& node) { size.flash_attention = values.truth(node); }},
            {"bytes", values.into(size.bytes, 0.5)},
            {"gradient_bytes", values.into(size.gradient_bytes, 0.5)}};
}

Section job_section(const Values& values, ThroughputModel& model) {
    return {{"batch", [&](const toml::node& node) { model.batch = values.number(node, 1, 1 << 24); }},
            {"gpus_per_nic", values.into(model.gpus_per_nic, 0.01)},
            {"cpus", values.into(model.cpus, 0.01)},
            {"gpu_memory", [&](const toml::node& node) { model.gpu_memory = values.bytes(node); }},
            {"host_memory", [&](const toml::node& node) { model.host_memory = values.bytes(node); }},
            {"nic", [&](const toml::node& node) { model.nic = values.rate(node); }},
            {"intra", [&](const toml::node& node) { model.intra = values.rate(node); }},
            {"pcie", [&](const toml::node& node) { model.pcie = values.rate(node); }}};
}

Section fit_section(const Values& values, ThroughputModel& model) {
    return {
        {"runs", [&](const toml::node& node) { model.runs = static_cast<std::size_t>(values.number(node, 0, 1e9)); }},
        {"error", values.into(model.error, 0)},
        {"left_out_error", values.into(model.leave_one_out_error, 0)},
        {"interval_scale", values.into(model.interval_scale, 0)},
        {"memory_scale", values.into(model.memory.scale, 0)},
        {"memory_offset", values.into(model.memory.offset, -1e12)}};
}

void read_parameters(const Values& values, const toml::table& table, ThroughputModel& model) {
    Parameters& parameters = model.parameters.emplace(prior_parameters(model.size));
    parameters.uneven_doubling = Parameters{}.uneven_doubling;  // 1 for files written before this parameter existed
    Section section;
    for (const ParameterInfo& info : parameter_infos())
        section[std::string{info.name}] = values.into(parameters.*info.value, info.least);
    values.read(table, "parameters", section);
    for (const ParameterInfo& info : parameter_infos())
        if (!(parameters.*info.value > info.least))
            throw values.toml_error(table, "{} must be above {:g}", info.name, info.least);
}

// Files of earlier versions have deviations alone: the covariance is taken as 0.
void read_deviations(const Values& values, const toml::table& table, ThroughputModel& model) {
    Matrix& covariance = model.covariance.emplace();
    Section section;
    for (int i = 0; i < parameter_count; ++i)
        section[std::string{parameter_infos()[i].name}] = [&, i](const toml::node& node) {
            covariance[i][i] = std::pow(values.number(node, 0), 2);
        };
    values.read(table, "deviations", section);
}

// Row i has the columns 0 to i; the rest follows by symmetry.
void read_covariance(const Values& values, const toml::table& table, ThroughputModel& model) {
    Matrix& covariance = model.covariance.emplace();
    Section section;
    for (int i = 0; i < parameter_count; ++i)
        section[std::string{parameter_infos()[i].name}] = [&, i](const toml::node& node) {
            const toml::array* row = node.as_array();
            if (!row || row->size() != static_cast<std::size_t>(i) + 1)
                throw values.toml_error(node, "{} numbers were expected", i + 1);
            for (int j = 0; j <= i; ++j)
                covariance[i][j] = covariance[j][i] = values.number((*row)[j], i == j ? 0 : -1e30);
        };
    values.read(table, "covariance", section);
}

}  // namespace

Belief belief_before(const ThroughputModel& model) {
    Belief belief = prior_belief(model.size);
    const auto given = [&](const std::optional<double>& rate, double Parameters::*parameter) {
        for (int i = 0; i < parameter_count; ++i)
            if (rate && parameter_infos()[i].value == parameter) measured(belief, i, link_efficiency * *rate, 0.3);
    };
    given(model.nic, &Parameters::nic);
    given(model.intra, &Parameters::intra);
    given(model.pcie, &Parameters::pcie);
    return belief;
}

ThroughputModel parse_throughput_model(std::string_view text, std::string_view file) {
    const Values values{file};
    ThroughputModel model;
    const toml::table root = parse_toml_text(text, file);
    const toml::table none;
    const auto section = [&](std::string_view name) -> const toml::table& {
        const toml::table* found = root[name].as_table();
        return found ? *found : none;
    };
    for (const auto& [key, value] : root)
        if (!value.is_table() || std::ranges::count(sections, key.str()) == 0)
            throw values.toml_error(value, "'{}': [{}] are known", key.str(), fmt::join(sections, "], ["));
    values.read(section("model"), "model", model_section(values, model));
    values.read(section("job"), "job", job_section(values, model));
    if (model.size.parameters <= 0) throw Error{Exit::usage, "{}: [model] has no parameters = N", file};
    if (root.contains("parameters")) read_parameters(values, section("parameters"), model);
    if (root.contains("deviations")) read_deviations(values, section("deviations"), model);
    if (root.contains("covariance")) read_covariance(values, section("covariance"), model);
    values.read(section("fit"), "fit", fit_section(values, model));
    return model;
}

ThroughputModel read_throughput_model(const std::string& path) {
    return parse_throughput_model(read_file(path, std::uint64_t{1} << 20), path);
}

Uncertainty uncertainty_of(const ThroughputModel& model) {
    Belief belief = belief_before(model);
    if (model.parameters) belief.mean = logarithms(*model.parameters);
    if (model.covariance) belief.covariance = *model.covariance;
    return {belief, model.interval_scale};
}

ThroughputModel like(ThroughputModel model, const ThroughputModel& other) {
    // How far the logarithms of the parameters of two sizes are apart beyond the scaling: so far that 90 % intervals
    // cover about as many runs of MPT's neighboring sizes.
    constexpr double forward_deviation = 0.07, other_deviation = 0.05;
    const ModelSize &size = model.size, &known = other.size;
    Parameters parameters = other.parameters.value_or(prior_parameters(known));
    parameters.forward *= size.active() * size.sequence / (known.active() * known.sequence);
    parameters.k_const *= static_cast<double>(size.layers) / known.layers;
    Matrix covariance = uncertainty_of(other).belief.covariance;
    for (int i = 0; i < parameter_count; ++i) {
        const double deviation = i == parameter_index(&Parameters::forward) ? forward_deviation : other_deviation;
        covariance[i][i] += deviation * deviation;
    }
    model.parameters = parameters;
    model.covariance = covariance;
    model.interval_scale = other.interval_scale;
    model.memory = other.memory;
    return model;
}

Job job_of(const ThroughputModel& model) {
    Job job{model.size, model.parameters.value_or(prior_parameters(model.size))};
    job.batch = model.batch.value_or(0);
    job.memory = model.memory;
    job.gpu_memory = model.gpu_memory;
    job.host_memory = model.host_memory;
    job.gpus_per_nic = model.gpus_per_nic;
    job.cpus = model.cpus;
    return job;
}

std::string throughput_model_text(const ThroughputModel& model) {
    const ModelSize& size = model.size;
    std::string text = "# tpx-throughput(5): written by tpx profile fit\n[model]\n";
    const auto add = [&](std::string_view key, double value, std::string_view unit = {}) {
        text += fmt::format("{} = {}", key, value);
        if (!unit.empty()) text += fmt::format("  # {}", unit);
        text += "\n";
    };
    text += fmt::format("name = {}\n", toml_string(size.name));
    add("parameters", size.parameters);
    if (size.active_parameters > 0) add("active_parameters", size.active_parameters);
    add("layers", size.layers);
    add("hidden", size.hidden);
    add("heads", size.heads);
    add("sequence", size.sequence, "tokens");
    if (size.vocabulary > 0) add("vocabulary", size.vocabulary);
    if (size.flash_attention) text += "flash_attention = true\n";
    add("bytes", size.bytes);
    add("gradient_bytes", size.gradient_bytes);
    text += "\n[job]\n";
    if (model.batch) add("batch", *model.batch, "samples");
    add("gpus_per_nic", model.gpus_per_nic);
    add("cpus", model.cpus, "threads a GPU");
    if (model.gpu_memory) add("gpu_memory", *model.gpu_memory, "B");
    if (model.host_memory) add("host_memory", *model.host_memory, "B");
    if (model.nic) add("nic", *model.nic, "B/s, nominal");
    if (model.intra) add("intra", *model.intra, "B/s, nominal");
    if (model.pcie) add("pcie", *model.pcie, "B/s, nominal");
    if (!model.parameters) return text;
    text += "\n[parameters]\n";
    for (const ParameterInfo& info : parameter_infos()) add(info.name, *model.parameters.*info.value, info.unit);
    if (model.covariance) {
        text += "\n[covariance]  # of the logarithms of (value - least), up to the diagonal\n";
        for (int i = 0; i < parameter_count; ++i)
            text +=
                fmt::format("{} = [{:.6g}]\n", parameter_infos()[i].name,
                            fmt::join(std::span{(*model.covariance)[i]}.first(static_cast<std::size_t>(i) + 1), ", "));
    }
    text += "\n[fit]\n";
    add("runs", static_cast<double>(model.runs));
    add("error", model.error);
    add("left_out_error", model.leave_one_out_error);
    add("interval_scale", model.interval_scale);
    add("memory_scale", model.memory.scale);
    add("memory_offset", model.memory.offset, "B");
    return text;
}

}  // namespace tpx::formats
