// SPDX-License-Identifier: Apache-2.0
#include "cmd/verify/verify.hpp"

#include "cmd/jobs/keeper_client.hpp"
#include "cmd/jobs/run_on_ranks.hpp"
#include "cmd/output/output.hpp"
#include "cmd/verify/agreed_source.hpp"
#include "cmd/verify/check_masters.hpp"
#include "cmd/verify/compare.hpp"
#include "cmd/verify/verify_one.hpp"
#include "formats/convert/addends.hpp"
#include "formats/quantized/quantized.hpp"
#include "lib/core/counted.hpp"
#include "lib/core/error.hpp"
#include "lib/core/units.hpp"

#include <algorithm>
#include <array>
#include <cstdint>
#include <map>
#include <utility>
#include <vector>

namespace tpx::cli {
namespace {

using Json = nlohmann::ordered_json;

/// Bytes of memory for each tensor in the tables of names that pair tensors.
constexpr std::uint64_t for_pairs = 500;

Json masters_json(const MastersReport& report) {
    return {{"parameters", report.parameters},
            {"masters", report.masters},
            {"moments", report.moments},
            {"elements", report.elements},
            {"step", report.step},
            {"faults", report.faults},
            {"notes", report.notes}};
}

void print_masters(const std::string& checkpoint, const MastersReport& report, Output& out) {
    for (const std::string& line : report.faults) out.data("{}\n", printable(line));
    const std::string verdict =
        !report.faults.empty() ? fmt::format("does not match the weights: {}, ", counted(report.faults.size(), "fault"))
        : report.masters > 0   ? "matches the weights: "
                               : "has no faults, but no master weights could be compared with weights: ";
    out.result("optimizer state of {} {}{}, {}, {}{}\n", checkpoint, verdict, counted(report.parameters, "parameter"),
               counted(report.masters, "master"), counted(report.moments, "moment"),
               report.step.empty() ? "" : fmt::format(", step {}", report.step));
}

/// Checks that the optimizer state of A and, if given, of B matches the weights. `list` becomes the results as JSON.
Exit verify_masters(const mpi::Comm& comm, const VerifyOptions& options, Output& out, Json& list) {
    bool fit = true;
    list = Json::array();
    for (const std::string& path : {options.first, options.second}) {
        if (path.empty()) continue;
        AgreedSource opened{comm, path, options};
        const MastersReport report =
            check_masters(comm, opened.source(), read_limits(comm, options, std::array{&opened.source()}, for_pairs));
        opened.check_unchanged(comm);
        fit &= report.faults.empty();
        for (const std::string& note : report.notes) out.note("{}: {}", path, note);
        Json json{{"checkpoint", path}, {"fits", report.faults.empty()}};
        json.update(masters_json(report));
        list.push_back(std::move(json));
        if (!out.json()) print_masters(path, report, out);
    }
    if (out.json() && options.second.empty()) out.object("tpx.verify/1", {{"fits", fit}, {"masters", list}});
    return fit ? Exit::success : Exit::no;
}

Json differences_json(const std::vector<Comparison::Difference>& differences) {
    Json list = Json::array();
    for (const Comparison::Difference& difference : differences) {
        Json json{{difference.value ? "value" : "tensor", difference.name}, {"role", difference.role}};
        if (!difference.canonical.empty()) json["canonical"] = difference.canonical;
        json["a"] = difference.a;
        json["b"] = difference.b;
        json["cause"] = difference.cause;
        list.push_back(std::move(json));
    }
    return list;
}

std::string count_text(std::uint64_t count, std::string_view thing) {
    return fmt::format("{} {}{}", count, thing, count == 1 ? "" : "s");
}

/// Shortens a long value; only JSON contains long values in full.
std::string short_text(const std::string& text) {
    constexpr std::size_t longest = 100;
    return text.size() <= longest ? text : text.substr(0, longest) + "...";
}

std::string line_of(const Comparison::Difference& difference) {
    if (!difference.value) {
        const std::string part = difference.canonical.empty() ? "" : fmt::format(" ({})", difference.canonical);
        return fmt::format("tensor '{}'{}: {}", difference.name, part, difference.cause);
    }
    if (difference.lacking != 0)
        return fmt::format(
            "{} '{}': {} ({} has {})", difference.role, difference.name,
            difference.name.find(", ") == std::string::npos ? difference.cause
                                                            : fmt::format("missing in {}", difference.lacking),
            difference.lacking == 'A' ? 'B' : 'A', short_text(difference.lacking == 'A' ? difference.b : difference.a));
    if (difference.a.empty() && difference.b.empty()) return fmt::format("{}: {}", difference.name, difference.cause);
    return fmt::format("{} '{}': {} in A, {} in B", difference.role, difference.name, short_text(difference.a),
                       short_text(difference.b));
}

/// Prints one line for each role of which one side has nothing, and one line for each other difference.
void print_differences(const Comparison& comparison, Output& out) {
    constexpr std::uint64_t most_listed = 5;  // of the values of a role; all tensors are listed
    std::map<std::string, std::vector<const Comparison::Difference*>> absent;
    std::map<std::pair<std::string, char>, std::uint64_t> listed;
    for (const Comparison::Difference& difference : comparison.differences) {
        if (!difference.absent.empty())
            absent[fmt::format("{} {}", difference.lacking, difference.absent)].push_back(&difference);
        else if (!difference.value || ++listed[{difference.role, difference.lacking}] <= most_listed)
            out.data("{}\n", printable(line_of(difference)));
    }
    for (const auto& [key, count] : listed) {
        if (count > most_listed)
            out.data("and {} more {} that {} (--json lists all)\n", count - most_listed, key.first,
                     key.second == 0 ? "differ" : fmt::format("{} lacks", key.second));
    }
    for (const auto& [key, differences] : absent) {
        const Comparison::Difference& first = *differences[0];
        const auto values = static_cast<std::uint64_t>(
            std::ranges::count_if(differences, [](const auto* difference) { return difference->value; }));
        std::vector<std::string> what;
        if (differences.size() > values) what.push_back(count_text(differences.size() - values, "tensor"));
        if (values > 0) what.push_back(count_text(values, "value"));
        out.data("{} has no {} ({}: '{}'{})\n", first.lacking, first.absent, fmt::join(what, ", "), first.name,
                 differences.size() > 1 ? ", ..." : "");
    }
    for (const Comparison::Difference& difference : comparison.not_compared)
        out.result("not compared: {}\n", printable(line_of(difference)));
}

std::string things(std::uint64_t tensors, std::uint64_t values) {
    std::vector<std::string> texts;
    if (tensors > 0 || values == 0) texts.push_back(count_text(tensors, "tensor"));
    if (values > 0) texts.push_back(count_text(values, "value"));
    return fmt::format("{}", fmt::join(texts, " and "));
}

std::string verdict_of(const Comparison& comparison) {
    const std::string compared = things(comparison.compared, comparison.values);
    if (comparison.equal())
        return fmt::format("equal: {}, {}", compared, format_bytes(static_cast<double>(comparison.bytes)));
    const auto values = static_cast<std::uint64_t>(
        std::ranges::count_if(comparison.differences, [](const auto& difference) { return difference.value; }));
    const std::uint64_t open = comparison.not_compared.size();
    const std::string rest = open == 0 ? "" : fmt::format("; {} could not be compared", open);
    if (comparison.differences.empty())
        return fmt::format("not equal: {} could not be compared; {} compared", count_text(open, "thing"), compared);
    return fmt::format("different: {}; {} compared{}", things(comparison.differences.size() - values, values), compared,
                       rest);
}

void print_comparison(const VerifyOptions& options, const Comparison& comparison, const Json& masters, Output& out) {
    for (const std::string& note : comparison.notes) out.note("{}", note);
    for (const auto& [role, count] : comparison.ignored) out.note("ignored, as requested: {} ({})", role, count);
    if (!out.json()) {
        print_differences(comparison, out);
        return out.result("{}\n", verdict_of(comparison));
    }
    Json json{{"a", options.first},
              {"b", options.second},
              {"equal", comparison.equal()},
              {"verdict", comparison.equal()               ? "equal"
                          : comparison.differences.empty() ? "not compared"
                                                           : "different"},
              {"digest_a", comparison.state_a},
              {"digest_b", comparison.state_b},
              {"compared", comparison.compared},
              {"values", comparison.values},
              {"differences", differences_json(comparison.differences)},
              {"not_compared", differences_json(comparison.not_compared)},
              {"ignored", comparison.ignored},
              {"notes", comparison.notes}};
    if (!masters.is_null()) json["masters"] = masters;
    out.object("tpx.verify/1", json);
}

/// Dequantizes both checkpoints, so that values are compared, unless both store weights alike: then codes and scales
/// are compared.
void dequantize_unless_alike(const mpi::Comm& comm, formats::Source& a, formats::Source& b) {
    if (formats::has_same_tensors(a.checkpoint, b.checkpoint)) return;
    mpi::all_or_none(comm, [&] {
        for (formats::Source* source : {&a, &b}) formats::dequantize(*source, {});
    });
}

/// Changes the values of `a` to those that a checkpoint with the names of `b` stores. Returns a note, or an empty text
/// if nothing changes.
std::string with_addends_of(const mpi::Comm& comm, formats::Source& a, const formats::Source& b) {
    std::string note;
    mpi::all_or_none(comm, [&] {
        if (b.reading.dialect != nullptr) note = formats::change_addends(a, *b.reading.dialect, {});
    });
    return note;
}

Exit verify_two(const mpi::Comm& comm, const VerifyOptions& options, Output& out, const Json& masters) {
    AgreedSource a{comm, options.first, options};
    AgreedSource b{comm, options.second, options};
    dequantize_unless_alike(comm, a.source(), b.source());
    const std::string changed = with_addends_of(comm, a.source(), b.source());
    const CompareOptions how{.cast = options.dtype,
                             .weights_only = options.weights_only,
                             .ignored = {options.ignore.begin(), options.ignore.end()},
                             .exec = read_limits(comm, options, std::array{&a.source(), &b.source()}, for_pairs)};
    Comparison comparison = compare(comm, a.source(), b.source(), how);
    for (const AgreedSource* source : {&a, &b}) source->check_unchanged(comm);
    if (!changed.empty()) comparison.notes.push_back(changed);
    for (AgreedSource* source : {&a, &b})
        for (const std::string& warning : source->source().checkpoint.warnings)
            comparison.notes.push_back(fmt::format("{}: {}", source->path().string(), warning));
    print_comparison(options, comparison, masters, out);
    return comparison.equal() ? Exit::success : Exit::no;
}

}  // namespace

void run_verify(const VerifyOptions& options, Output& out) {
    if (options.write && is_held(options.first))
        throw usage_error("--write: digests cannot be stored beside held state");
    run_on_ranks([&](const mpi::Comm& comm) {
        return with_patience(comm, options.patience, [&](Patience&) {
            require_same_options(comm, options);
            Exit exit = Exit::success;
            Json masters;
            if (options.masters) exit = verify_masters(comm, options, out, masters);
            if (!options.second.empty())
                exit = std::max(exit, verify_two(comm, options, out, masters));
            else if (!options.masters)
                exit = verify_one(comm, options, out);
            out.finish();
            return exit;
        });
    });
}

}  // namespace tpx::cli
