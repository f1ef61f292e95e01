// SPDX-License-Identifier: Apache-2.0
#include "cmd/commands.hpp"
#include "cmd/compare.hpp"
#include "cmd/digesting.hpp"
#include "cmd/masters.hpp"
#include "cmd/output.hpp"
#include "cmd/ranks.hpp"
#include "cmd/reading.hpp"
#include "lib/core/error.hpp"
#include "lib/core/units.hpp"

#include <algorithm>

namespace tpx::cli {
namespace {

using Json = nlohmann::ordered_json;

Json tensor_list(const Digested& digested) {
    Json list = Json::array();
    for (std::size_t t = 0; t < digested.digests.size(); ++t) {
        const Tensor& tensor = digested.canonical.tensors[t];
        list.push_back({{"name", tensor.name},
                        {"stored", digested.canonical.stored_names[t]},
                        {"dtype", name(tensor.dtype)},
                        {"shape", to_json(tensor.shape)},
                        {"role", digested.canonical.roles[t]},
                        {"digest", to_string(digested.digests[t])}});
    }
    return list;
}

std::uint64_t total_bytes(const Digested& digested) {
    std::uint64_t bytes = 0;
    for (const Digest& digest : digested.digests) bytes += digest.bytes;
    return bytes;
}

formats::RecordedDigests record_of(const mpi::Comm& comm, const formats::Source& source, const Digested& digested) {
    formats::RecordedDigests record{.files = digest_files(comm, source.checkpoint.catalogue)};
    for (std::size_t t = 0; t < digested.digests.size(); ++t)
        record.tensors.push_back({digested.canonical.tensors[t].name, digested.canonical.stored_names[t],
                                  std::string{name(digested.canonical.tensors[t].dtype)},
                                  to_string(digested.digests[t])});
    return record;
}

void print_tensors(const Digested& digested, Output& out) {
    for (std::size_t t = 0; t < digested.digests.size(); ++t)
        out.result("{}  {} {} {}\n", to_string(digested.digests[t]), name(digested.canonical.tensors[t].dtype),
                   to_string(digested.canonical.tensors[t].shape), digested.canonical.tensors[t].name);
}

/// Records and comparisons with records do not depend on what --config adds.
Exit verify_one(const mpi::Comm& comm, const VerifyOptions& options, Output& out) {
    Opened opened;
    mpi::all_or_none(comm, [&] { opened = open_checkpoint(options.first, options); });
    std::vector<std::string> differences = damaged_archives(comm, opened.source);
    const Digested digested = digest_all(comm, opened.source);
    for (const formats::Quantised& tensor : opened.source.checkpoint.quantised)
        out.note("tensor '{}': is quantised ({}) and cannot be compared", tensor.name, tensor.type);
    Opened plain;
    Digested recorded = digested;
    if (!options.config.empty() || !options.settings.empty()) {
        mpi::all_or_none(comm, [&] { plain = open_checkpoint(options.first, {.rules = options.rules}); });
        recorded = digest_all(comm, plain.source);
    }
    const auto& directory = opened.source.checkpoint.catalogue.directory;
    std::optional<formats::RecordedDigests> record;
    mpi::all_or_none(comm, [&] { record = options.write ? std::nullopt : formats::read_digests(directory); });
    if (record) {
        const std::vector<std::string> changed = compare_with_record(comm, opened.source, recorded, *record);
        differences.insert(differences.end(), changed.begin(), changed.end());
    }
    if (options.write && differences.empty()) {
        const formats::RecordedDigests fresh = record_of(comm, opened.source, recorded);
        mpi::all_or_none(comm, [&] {
            if (comm.rank() == 0) formats::write_digests(directory, fresh);
        });
    }
    const std::string_view verdict = !differences.empty() ? "differs"
                                     : options.write      ? "recorded"
                                     : record             ? "intact"
                                                          : "no record";
    if (out.json()) {
        Json json{{"checkpoint", options.first},
                  {"verdict", verdict},
                  {"digest", digested.state},
                  {"tensors", digested.digests.size()},
                  {"bytes", total_bytes(digested)},
                  {"differences", differences},
                  {"tensor_list", tensor_list(digested)}};
        out.object("tpx.verify/1", json);
    } else {
        if (options.tensors) print_tensors(digested, out);
        for (const std::string& difference : differences) out.result("{}\n", difference);
        out.result("{}  {}, {} tensors, {}: {}\n", digested.state, options.first, digested.digests.size(),
                   format_bytes(static_cast<double>(total_bytes(digested))),
                   verdict == "no record" ? "readable and whole; no digests are kept beside it" : verdict);
    }
    return differences.empty() ? Exit::success : Exit::no;
}

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
    for (const std::string& line : report.faults) out.result("{}\n", line);
    const std::string step = report.step.empty() ? "" : fmt::format(", step {}", report.step);
    if (report.faults.empty())
        out.result("the optimizer fits  {}, {} parameters: {} masters, {} moments{}\n", checkpoint, report.parameters,
                   report.masters, report.moments, step);
    else
        out.result("the optimizer does not fit  {}, {} faults, {} parameters: {} masters, {} moments{}\n", checkpoint,
                   report.faults.size(), report.parameters, report.masters, report.moments, step);
}

/// Whether the optimizers of A and of B, if it is given, are those of their weights; in JSON, a list in `list`.
Exit verify_masters(const mpi::Comm& comm, const VerifyOptions& options, Output& out, Json& list) {
    bool fit = true;
    list = Json::array();
    for (const std::string& path : {options.first, options.second}) {
        if (path.empty()) continue;
        Opened opened;
        mpi::all_or_none(comm, [&] { opened = open_checkpoint(path, options); });
        const MastersReport report = check_masters(comm, opened.source);
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

Json differences_json(const Comparison& comparison) {
    Json list = Json::array();
    for (const Comparison::Difference& difference : comparison.differences)
        list.push_back({{"tensor", difference.tensor},
                        {"a", difference.stored_a},
                        {"b", difference.stored_b},
                        {"cause", difference.cause}});
    return list;
}

Exit verify_two(const mpi::Comm& comm, const VerifyOptions& options, Output& out, const Json& masters) {
    Opened a;
    Opened b;
    mpi::all_or_none(comm, [&] { a = open_checkpoint(options.first, options); });
    mpi::all_or_none(comm, [&] { b = open_checkpoint(options.second, options); });
    const Comparison comparison = compare(comm, a.source, b.source, options.dtype);
    const bool equal = comparison.differences.empty();
    for (const std::string& note : comparison.notes) out.note("{}", note);
    if (out.json()) {
        Json json{{"a", options.first},
                  {"b", options.second},
                  {"equal", equal},
                  {"digest_a", comparison.state_a},
                  {"digest_b", comparison.state_b},
                  {"compared", comparison.compared},
                  {"differences", differences_json(comparison)},
                  {"notes", comparison.notes}};
        if (!masters.is_null()) json["masters"] = masters;
        out.object("tpx.verify/1", json);
    } else {
        for (const Comparison::Difference& difference : comparison.differences)
            out.result("tensor '{}': {}\n", difference.tensor, difference.cause);
        if (equal)
            out.result("equal: {} tensors, {}\n", comparison.compared,
                       format_bytes(static_cast<double>(comparison.bytes)));
        else
            out.result("different: {} tensors, {} compared\n", comparison.differences.size(), comparison.compared);
    }
    return equal ? Exit::success : Exit::no;
}

}  // namespace

void run_verify(const VerifyOptions& options, Output& out) {
    in_ranks([&](const mpi::Comm& comm) {
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
}

}  // namespace tpx::cli
