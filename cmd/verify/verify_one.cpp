// SPDX-License-Identifier: Apache-2.0
#include "cmd/verify/verify_one.hpp"

#include "cmd/jobs/checkpoint_digests.hpp"
#include "cmd/jobs/metadata_size.hpp"
#include "cmd/jobs/open_checkpoint.hpp"
#include "cmd/jobs/run_on_ranks.hpp"
#include "cmd/verify/agreed_source.hpp"
#include "formats/convert/missing_parts.hpp"
#include "formats/copied_files.hpp"
#include "lib/core/counted.hpp"
#include "lib/core/error.hpp"
#include "lib/core/in_path.hpp"
#include "lib/core/units.hpp"
#include "lib/exec/stop_signals.hpp"

#include <algorithm>
#include <iterator>
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

namespace tpx::cli {
namespace {

using Json = nlohmann::ordered_json;

Json tensor_list(const CheckpointDigests& digested) {
    Json list = Json::array();
    for (const DigestedTensor& tensor : all_tensors(digested))
        list.push_back({{"name", tensor.name},
                        {"stored", tensor.stored},
                        {"dtype", tensor.dtype},
                        {"shape", to_json(tensor.shape)},
                        {"role", tensor.role},
                        {"digest", to_string(tensor.digest)}});
    return list;
}

std::uint64_t total_bytes(const CheckpointDigests& digested) {
    std::uint64_t bytes = 0;
    for (const auto* digests : {&digested.digests, &digested.blocks})
        for (const Digest& digest : *digests) bytes += digest.bytes;
    return bytes;
}

formats::RecordedDigests record_of(const CheckpointDigests& digested,
                                   std::vector<formats::RecordedDigests::FileDigest> files) {
    formats::RecordedDigests record{.tensors = {}, .files = std::move(files)};
    for (const DigestedTensor& tensor : all_tensors(digested))
        record.tensors.push_back({tensor.name, tensor.stored, tensor.dtype, to_string(tensor.digest)});
    return record;
}

void print_tensors(const CheckpointDigests& digested, Output& out) {
    for (const DigestedTensor& tensor : all_tensors(digested))
        out.result("{}  {} {} {}\n", to_string(tensor.digest), tensor.dtype, to_string(tensor.shape),
                   printable(tensor.name));
}

/// The results for one checkpoint.
struct FileFindings {
    CheckpointDigests digested;
    std::vector<std::string> differences;  ///< damage, and differences from the record
    std::vector<std::string> missing;      ///< parts of the model that are not stored
    bool recorded = false;                 ///< whether digests are stored beside it

    bool good() const { return differences.empty() && missing.empty(); }
    std::string_view verdict(bool write) const {
        if (!differences.empty()) return "differs";
        if (!missing.empty()) return "incomplete";
        return write ? "recorded" : recorded ? "intact" : "no record";
    }
};

/// The files of a checkpoint, and the digests that were recorded for them.
struct StoredPlace {
    std::filesystem::path path;  ///< of the record
    Catalogue files;
    std::vector<std::string> dangling;  ///< links without a file
    std::optional<formats::RecordedDigests> record;
};

StoredPlace place_of(AgreedSource& opened, const VerifyOptions& options) {
    const Catalogue& catalogue = opened.source().checkpoint.catalogue;
    const std::string file = name_of_file(opened.path());
    StoredPlace place{.path = formats::digests_path(catalogue.directory, file),
                      .files = formats::files_as_tensors(catalogue, file)};
    if (file.empty()) place.dangling = formats::dangling_links(catalogue);
    if (!options.write) place.record = formats::read_digests(catalogue, file);
    return place;
}

/// Bytes of memory for each tensor in the tables that are printed, recorded or compared with a record.
std::uint64_t memory_of_lists(const VerifyOptions& options, const StoredPlace& place, const Output& out) {
    constexpr std::uint64_t listed = 350, in_json = 2000, recorded = 800, written = 2000;
    return (options.tensors ? listed : 0) + (out.json() ? in_json : 0) + (place.record ? recorded : 0) +
           (options.write ? written : 0);
}

/// Adds a line for each file that cannot be opened, and excludes these files from the comparison with the record.
void list_unreadable(const mpi::Comm& comm, StoredPlace& place, std::vector<std::string>& lines) {
    for (const std::string& name : place.dangling)
        lines.push_back(fmt::format("file '{}': is a link without a file", name));
    const std::map<std::string, std::string> unreadable = unreadable_files(comm, place.files);
    for (const auto& [name, cause] : unreadable)
        lines.push_back(fmt::format("file '{}': cannot be read: {}", name, cause));
    const auto is_unreadable = [&](const std::string& name) {
        return unreadable.contains(name) || std::ranges::find(place.dangling, name) != place.dangling.end();
    };
    if (place.record) std::erase_if(place.record->files, [&](const auto& file) { return is_unreadable(file.path); });
    Catalogue rest{.directory = place.files.directory};
    for (std::size_t f = 0; f < place.files.files.size(); ++f) {
        if (is_unreadable(place.files.files[f].path.string())) continue;
        Piece piece = place.files.pieces[f];
        piece.tensor = piece.file = static_cast<std::uint32_t>(rest.files.size());
        rest.files.push_back(place.files.files[f]);
        rest.tensors.push_back(place.files.tensors[f]);
        rest.pieces.push_back(piece);
    }
    place.files = std::move(rest);
}

/// The notes of copied_files(), on rank 0; none on other ranks.
std::vector<std::string> notes_of_copies(const mpi::Comm& comm, const formats::Source& source,
                                         const ExecOptions& exec) {
    std::vector<std::string> notes;
    mpi::all_or_none(comm, [&] {
        if (comm.rank() == 0)
            notes = formats::copied_files(source.checkpoint,
                                          [&] { return exec.cancelled != nullptr && exec.cancelled->load() != 0; });
        check_not_stopped(exec.cancelled);
    });
    return notes;
}

void report(const VerifyOptions& options, const FileFindings& found, Output& out) {
    const std::size_t tensors = found.digested.digests.size() + found.digested.blocks.size();
    const std::string_view verdict = found.verdict(options.write);
    if (out.json())
        return out.object("tpx.verify/1", {{"checkpoint", options.first},
                                           {"verdict", verdict},
                                           {"digest", found.digested.state},
                                           {"tensors", tensors},
                                           {"bytes", total_bytes(found.digested)},
                                           {"differences", found.differences},
                                           {"missing", found.missing},
                                           {"tensor_list", tensor_list(found.digested)}});
    if (options.tensors) print_tensors(found.digested, out);
    for (const auto* lines : {&found.differences, &found.missing})
        for (const std::string& line : *lines) out.data("{}\n", printable(line));
    out.result("{}  {}, {}, {}: {}\n", found.digested.state, options.first, counted(tensors, "tensor"),
               format_bytes(static_cast<double>(total_bytes(found.digested))),
               verdict == "no record" ? "complete and readable; no digests are recorded" : verdict);
}

}  // namespace

ExecOptions read_limits(const mpi::Comm& comm, const VerifyOptions& options,
                        std::span<const formats::Source* const> sources, std::uint64_t more) {
    ExecOptions exec;
    if (options.memory) {
        MetadataSize size;
        mpi::all_or_none(comm, [&] {
            for (const formats::Source* source : sources)
                in_path(source->checkpoint.catalogue.directory.string(), [&] { size += metadata_of(*source, more); });
        });
        exec = limits_within(comm, *options.memory, size);
    }
    set_workers(comm, options, exec);
    return exec;
}

/// Tensors are recorded, and compared with records, without what --config and --set add.
Exit verify_one(const mpi::Comm& comm, const VerifyOptions& options, Output& out) {
    StoredPlace place;
    std::optional<OpenedCheckpoint> plain;
    AgreedSource agreed{comm, options.first, options, [&](AgreedSource& opened) {
                            place = place_of(opened, options);
                            if (!options.config.empty() || !options.settings.empty())
                                plain = open_checkpoint(opened.path(), {.rules = options.rules});
                        }};
    FileFindings found{.recorded = place.record.has_value()};
    std::vector<const formats::Source*> sources{&agreed.source()};
    if (plain) sources.push_back(&plain->source);
    ExecOptions exec = read_limits(comm, options, sources, memory_of_lists(options, place, out));
    found.differences = damaged_archives(comm, agreed.source(), exec);
    const std::vector<std::string> copied = notes_of_copies(comm, agreed.source(), exec);
    list_unreadable(comm, place, found.differences);
    ReadDigests read{comm, place.files};
    const bool with_files = place.record || options.write;
    exec.read_digests = with_files ? &read : nullptr;
    found.digested = digest_all(comm, agreed.source(), exec);
    exec.read_digests = nullptr;
    found.missing = formats::missing_parts(agreed.source());
    std::optional<CheckpointDigests> without_config;
    if (plain) without_config = digest_all(comm, plain->source, exec);
    const CheckpointDigests& recorded = without_config ? *without_config : found.digested;
    std::vector<formats::RecordedDigests::FileDigest> files;
    if (with_files) files = digest_files(place.files, read, exec);
    if (place.record) {
        std::ranges::move(compare_tensors(recorded, *place.record), std::back_inserter(found.differences));
        std::ranges::move(compare_files(files, *place.record), std::back_inserter(found.differences));
    }
    const bool writes = options.write && found.good();
    const formats::RecordedDigests fresh = writes ? record_of(recorded, std::move(files)) : formats::RecordedDigests{};
    agreed.check_unchanged(comm);
    mpi::all_or_none(comm, [&] {
        if (writes && comm.rank() == 0) formats::write_digests(place.path, fresh);
    });
    for (const std::string& warning : agreed.source().checkpoint.warnings) out.note("{}", warning);
    for (const std::vector<std::string>& notes : {copied, copy_notes(found.digested)})
        for (const std::string& note : notes) out.note("{}", note);
    report(options, found, out);
    return found.good() ? Exit::success : Exit::no;
}

}  // namespace tpx::cli
