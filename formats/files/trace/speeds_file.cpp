// SPDX-License-Identifier: Apache-2.0
#include "formats/files/trace/speeds_file.hpp"

#include "formats/files/profile/throughput_file.hpp"
#include "formats/files/trace/rows.hpp"
#include "lib/core/file.hpp"
#include "lib/core/path.hpp"

#include <nlohmann/json.hpp>

#include <charconv>
#include <filesystem>
#include <optional>
#include <set>

namespace tpx::formats {
namespace {

constexpr double highest_rate = 1e12;
constexpr std::uint64_t longest_file = std::uint64_t{64} << 20;

// "('ResNet-50 (batch size 64)', 2)" as the model and the GPUs.
std::pair<std::string, int> gavel_key(std::string_view key, std::string_view file) {
    const std::size_t end = key.rfind("', ");
    int gpus = 0;
    if (key.starts_with("('") && key.ends_with(')') && end != key.npos && end >= 2) {
        const std::string_view number = key.substr(end + 3, key.size() - end - 4);
        const auto [stop, code] = std::from_chars(number.data(), number.data() + number.size(), gpus);
        if (code != std::errc{} || stop != number.data() + number.size()) gpus = 0;
    }
    if (gpus < 1) throw failure("{}: '{}' is not as ('model', 2)", file, key);
    return {std::string{key.substr(2, end - 2)}, gpus};
}

// Gavel's table: kind of GPU, then model and GPUs, then the rates alone ("null") and beside others.
JobSpeeds parse_gavel(const nlohmann::json& root, std::string_view file, const Cluster& cluster) {
    JobSpeeds speeds;
    for (const auto& [name, models] : root.items()) {
        const int kind = find_kind(cluster, name);
        if (kind == any || !models.is_object()) continue;
        for (const auto& [key, rates] : models.items()) {
            const auto [model, gpus] = gavel_key(key, file);
            const auto alone = rates.is_object() ? rates.find("null") : rates.end();
            if (!rates.is_object() || alone == rates.end() || !alone->is_number())
                throw failure("{}: {}: {}: no number under \"null\"", file, name, key);
            const double rate = alone->get<double>();
            if (!(rate >= 0 && rate <= highest_rate))
                throw failure("{}: {}: {}: {:g} is not a rate", file, name, key, rate);
            if (!speeds.models_[model].speed->add(kind, gpus, rate))
                throw failure("{}: {}: {}: this rate is there twice", file, name, key);
        }
    }
    return speeds;
}

// "16+5" GPUs of kinds "K80+P100", by kind; nothing where the cluster lacks one.
std::optional<std::vector<int>> mixed_gpus(const Row& row, const Cluster& cluster) {
    std::vector<int> gpus(cluster.kinds.size());
    bool all_there = true;
    std::string_view names = row.text("kind"), counts = row.text("gpus");
    while (!names.empty()) {
        const std::size_t end = std::min(names.find('+'), names.size()),
                          stop = std::min(counts.find('+'), counts.size());
        int count = 0;
        const auto [last, code] = std::from_chars(counts.data(), counts.data() + stop, count);
        if (code != std::errc{} || last != counts.data() + stop || count < 1)
            throw row.bad("gpus", "'{}' has not one number for each of the kinds '{}'", row.text("gpus"),
                          row.text("kind"));
        const int kind = find_kind(cluster, names.substr(0, end));
        if (kind == any)
            all_there = false;
        else
            gpus[kind] += count;
        names.remove_prefix(std::min(end + 1, names.size()));
        counts.remove_prefix(std::min(stop + 1, counts.size()));
    }
    if (!counts.empty())
        throw row.bad("gpus", "'{}' has not one number for each of the kinds '{}'", row.text("gpus"), row.text("kind"));
    return all_there ? std::optional{gpus} : std::nullopt;
}

void add_mix(JobSpeeds& speeds, const Row& row, const Cluster& cluster) {
    if (!row.has("model") || !row.has("rate")) throw row.bad("kind", "several kinds together need a model and a rate");
    const double rate = row.number("rate", 0, highest_rate);
    auto gpus = mixed_gpus(row, cluster);
    if (gpus && !speeds.models_[std::string{row.text("model")}].speed->add({std::move(*gpus), rate}))
        throw row.bad("gpus", "'{}' has two rates on {} GPUs of kinds {}", row.text("model"), row.text("gpus"),
                      row.text("kind"));
}

void add_row(JobSpeeds& speeds, const Row& row, const Cluster& cluster) {
    int kind = any;
    if (row.text("kind").find('+') != std::string_view::npos) return add_mix(speeds, row, cluster);
    if (row.has("kind") && (kind = find_kind(cluster, row.text("kind"))) == any) return;
    if (row.has("job") == row.has("model")) throw row.bad("job", "either job or model is needed");
    const bool whole = row.has("seconds");
    if (whole == row.has("rate")) throw row.bad("rate", "either rate or seconds is needed");
    if (whole && row.has("model")) throw row.bad("seconds", "the seconds of a whole job belong to a job, not a model");
    const int gpus = row.whole("gpus", 1, 1 << 20);
    const double rate =
        whole ? 1 / row.number("seconds", 1e-6, max_trace_seconds) : row.number("rate", 0, highest_rate);
    const std::string name{row.text(row.has("job") ? "job" : "model")};
    JobSpeeds::Entry& entry = (row.has("job") ? speeds.jobs_ : speeds.models_)[name];
    if (entry.used && entry.whole_jobs != whole) throw row.bad("rate", "'{}' has rates and seconds", name);
    entry.used = true;
    entry.whole_jobs = whole;
    if (!entry.speed->add(kind, gpus, rate))
        throw row.bad("gpus", "'{}' has two rates on {} GPU{}", name, gpus, gpus == 1 ? "" : "s");
}

// One digit for each host: its GPUs.
HostShape shape_in(const Row& row) {
    HostShape shape;
    for (const char digit : row.text("placement")) {
        if (digit < '1' || digit > '9')
            throw row.bad("placement", "'{}' has not one digit a host", row.text("placement"));
        shape.push_back(digit - '0');
    }
    if (shape.empty()) throw row.bad("placement", "it is empty");
    return shape;
}

std::shared_ptr<PlanTable> parse_plan_table(const Table& table) {
    auto plans = std::make_shared<PlanTable>();
    for (const Table::Row& cells : table.rows) {
        const Row row{table, cells};
        if (!row.has("exec_plan")) throw row.bad("exec_plan", "it is empty");
        const std::string plan{row.text("exec_plan")};
        if (!plans->add(plan, shape_in(row), row.number("iter_time", 0, max_trace_seconds)))
            throw row.bad("iter_time", "plan '{}' has two times on placement {}", plan, row.text("placement"));
    }
    return plans;
}

// The model that a file is about: "bert.csv", "placements-bert.csv", or "bert.model.toml".
std::string model_of(const std::filesystem::path& file) {
    constexpr std::string_view prefix = "placements-", suffix = ".model";
    std::string stem = file.stem().string();
    if (stem.ends_with(suffix)) stem.resize(stem.size() - suffix.size());
    return stem.starts_with(prefix) ? stem.substr(prefix.size()) : stem;
}

// Other TOML files, such as those that say how tables name things, are not about a model.
bool is_model(const std::filesystem::path& file) {
    return file.extension() == ".toml" && read_file(file.string(), longest_file).find("[model]") != std::string::npos;
}

void add_predicted(JobSpeeds& speeds, const std::filesystem::path& file) {
    const ThroughputModel model = read_throughput_model(file.string());
    if (!model.batch) throw failure("{}: it has no batch, the samples of a step", file.string());
    if (!model.parameters) speeds.assumed.push_back(file.string());
    speeds.predicted_[model_of(file)] = std::make_shared<ModelPlans>(job_of(model));
}

}  // namespace

const JobSpeeds::Entry* JobSpeeds::find(const std::string& job, const std::string& model) const {
    if (const auto found = jobs_.find(job); found != jobs_.end()) return &found->second;
    const auto found = models_.find(model);
    return found == models_.end() ? nullptr : &found->second;
}

std::size_t JobSpeeds::exclude(std::span<const std::string_view> excluded) {
    for (const auto& [model, plans] : plans_) plans->exclude(excluded);
    for (const auto& [model, plans] : predicted_) plans->exclude({excluded.begin(), excluded.end()});
    return plans_.size() + predicted_.size();
}

JobSpeeds parse_speeds(std::string_view text, std::string_view file, const Cluster& cluster) {
    const std::size_t first = text.find_first_not_of(" \t\r\n");
    if (first != text.npos && text[first] == '{') {
        const auto root = nlohmann::json::parse(text, nullptr, false);
        const bool nested = root.is_object() && !root.empty() && root.begin()->is_object();
        if (nested) return parse_gavel(root, file, cluster);
    }
    const Table table = parse_table(text, file);
    check_misspelled(table, {"job", "model", "kind", "gpus", "rate", "seconds"});
    JobSpeeds speeds;
    for (const Table::Row& row : table.rows) add_row(speeds, {table, row}, cluster);
    return speeds;
}

JobSpeeds read_speeds(const std::string& path, const Cluster& cluster) {
    JobSpeeds speeds;
    if (!path_is_directory(path)) {
        if (!path.ends_with(".toml")) return parse_speeds(read_file(path, longest_file), path, cluster);
        add_predicted(speeds, path);
        return speeds;
    }
    std::set<std::filesystem::path> models;
    for (const std::string& name : list_directory(path)) {
        const std::filesystem::path file = std::filesystem::path{path} / name;
        if (is_model(file)) models.insert(file);
        if (file.extension() != ".csv") continue;
        const Table table = parse_table(read_file(file, longest_file), file.string());
        if (table.find("exec_plan") != Table::npos && table.find("iter_time") != Table::npos)
            speeds.plans_[model_of(file)] = parse_plan_table(table);
    }
    for (const std::filesystem::path& file : models)
        if (!speeds.plans_.contains(model_of(file))) add_predicted(speeds, file);
    if (speeds.empty())
        throw failure("{}: neither a table with columns exec_plan, placement and iter_time nor MODEL.toml in it", path);
    return speeds;
}

}  // namespace tpx::formats
