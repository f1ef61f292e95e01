// SPDX-License-Identifier: Apache-2.0
#include "cmd/data_copies.hpp"

#include "cmd/migrate_run.hpp"
#include "cmd/room_check.hpp"
#include "formats/files/data/data_store.hpp"
#include "formats/files/store/manifest.hpp"
#include "formats/files/stores.hpp"
#include "lib/core/error.hpp"
#include "lib/core/path.hpp"
#include "lib/exec/draft_files.hpp"
#include "lib/exec/file_crcs.hpp"
#include "lib/exec/remove.hpp"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <map>
#include <optional>

namespace tpx::cli {
namespace {

namespace fs = std::filesystem;
using Json = nlohmann::ordered_json;

/// What has not got its names yet.
constexpr const char* incoming_name = "tpx.incoming";

/// Where a host has a data file.
struct FoundData {
    bool in_store = false;
    bool as_original = false;  ///< in the folder of --data
    std::uint64_t size = 0;
    std::uint64_t crc = 0;  ///< of a file in the store
};

/// The data files of a job, and where they are.
class DataStores {
public:
    DataStores(const Managed& run, const formats::DataPosition& position)
        : run_{run}, files_{formats::stored_data_files(position)} {
        folder_ = fs::absolute(formats::store_of(run.options.data_store, run.team.hosts[run.team.host]));
        if (!run.options.data.empty()) originals_ = fs::absolute(fs::path{run.options.data}).parent_path();
    }

    /// Finds the files on all hosts. Collective.
    void survey() {
        std::string mine;
        mpi::all_or_none(run_.comm, [&] {
            if (is_first()) mine = own_files().dump();
        });
        const std::vector<std::string> texts = mpi::all_gather(run_.comm, mine);
        found_.assign(run_.team.hosts.size(), std::vector<FoundData>(files_.size()));
        for (std::size_t h = 0; h < found_.size(); ++h) {
            if (run_.team.rank_of_host[h] < 0) continue;
            const Json list = Json::parse(texts[static_cast<std::size_t>(run_.team.rank_of_host[h])]);
            for (std::size_t f = 0; f < files_.size(); ++f)
                found_[h][f] = {list[f].at(0), list[f].at(1), list[f].at(2), list[f].at(3)};
        }
        for (std::size_t f = 0; f < files_.size(); ++f) sizes_.push_back(agreed_size(f));
    }

    std::size_t count() const { return files_.size(); }
    std::uint64_t size(std::size_t f) const { return sizes_[f]; }
    const fs::path& path(std::size_t f) const { return files_[f]; }
    const fs::path& folder() const { return folder_; }
    fs::path incoming() const { return folder_ / incoming_name; }
    bool is_in_store(std::size_t host, std::size_t f) const { return found_[host][f].in_store; }

    std::vector<std::uint32_t> holders(std::size_t f) const {
        std::vector<std::uint32_t> hosts;
        for (std::uint32_t h = 0; h < found_.size(); ++h)
            if (found_[h][f].in_store || found_[h][f].as_original) hosts.push_back(h);
        return hosts;
    }

    /// Where this host reads a file of which it is a holder.
    fs::path source(std::size_t f) const {
        return found_[run_.team.host][f].in_store ? folder_ / files_[f] : originals_ / files_[f];
    }

    /// Throws an mpi::AgreedError unless `crcs`, by host, agree with each other and with those in the stores.
    void require_same(std::size_t f, const std::map<std::size_t, std::uint64_t>& crcs) const {
        std::map<std::size_t, std::uint64_t> all = crcs;
        for (std::size_t h = 0; h < found_.size(); ++h)
            if (found_[h][f].in_store) all.emplace(h, found_[h][f].crc);
        for (const auto& [host, crc] : all)
            if (crc != all.begin()->second)
                throw mpi::AgreedError{
                    failure("data file '{}': hosts '{}' and '{}' have different contents (CRC-64 "
                            "{:016x} and {:016x})",
                            files_[f].string(), run_.team.hosts[all.begin()->first].name, run_.team.hosts[host].name,
                            all.begin()->second, crc)};
    }

    /// Gives the files of this host that are complete in incoming() their names, and records their checksums.
    void take_in(const std::vector<std::size_t>& files, const std::vector<std::uint64_t>& crcs) const {
        auto record = formats::read_data_record(folder_);
        for (std::size_t k = 0; k < files.size(); ++k) {
            const fs::path& path = files_[files[k]];
            make_directories((folder_ / path).parent_path());
            if (::rename((incoming() / path).c_str(), (folder_ / path).c_str()) != 0)
                throw system_failure(folder_ / path, errno);
            record[path.string()] = formats::stored_data_at(folder_ / path);
            record[path.string()].crc = crcs[k];
        }
        formats::write_data_record(folder_, record);
    }

private:
    bool is_first() const { return run_.team.is_first(run_.comm.rank()); }

    /// Of each file: whether the store has it, whether the folder of --data has it, its size and checksum.
    Json own_files() const {
        auto record = formats::read_data_record(folder_);
        bool is_new = false;
        Json list = Json::array();
        for (const fs::path& file : files_) {
            FoundData found{.in_store = path_is_file(folder_ / file),
                            .as_original = !originals_.empty() && path_is_file(originals_ / file)};
            if (found.in_store) {
                formats::StoredData now = formats::stored_data_at(folder_ / file);
                const auto known = record.find(file.string());
                if (known == record.end() || known->second.size != now.size || known->second.modified != now.modified) {
                    now.crc = formats::crc_of_file(folder_ / file, now.size, [&](std::uint64_t) {
                        check_not_stopped(run_.signal(), "; no data file was changed");
                    });
                    record[file.string()] = now;
                    is_new = true;
                }
                found.size = now.size;
                found.crc = record[file.string()].crc;
            } else if (found.as_original) {
                found.size = formats::stored_data_at(originals_ / file).size;
            }
            list.push_back({found.in_store, found.as_original, found.size, found.crc});
        }
        if (is_new && !run_.options.dry_run) formats::write_data_record(folder_, record);
        return list;
    }

    std::uint64_t agreed_size(std::size_t f) const {
        const std::vector<std::uint32_t> hosts = holders(f);
        if (hosts.empty())
            throw mpi::AgreedError{Error{Exit::no,
                                         "data file '{}': is in no data store {}; put it into one, or pass --data FILE "
                                         "with the file beside FILE",
                                         files_[f].string(), run_.options.data_store}};
        for (const std::uint32_t host : hosts)
            if (found_[host][f].size != found_[hosts[0]][f].size)
                throw mpi::AgreedError{failure("data file '{}': has {} bytes on host '{}' and {} on host '{}'",
                                               files_[f].string(), found_[hosts[0]][f].size,
                                               run_.team.hosts[hosts[0]].name, found_[host][f].size,
                                               run_.team.hosts[host].name)};
        return found_[hosts[0]][f].size;
    }

    const Managed& run_;
    std::vector<fs::path> files_;
    fs::path folder_;                            // of this host
    fs::path originals_;                         // of --data; empty: not given
    std::vector<std::vector<FoundData>> found_;  // by host and file
    std::vector<std::uint64_t> sizes_;           // by file
};

/// The files that some of `members` lack, in batches of at most `most` bytes that are written, or of one file. What a
/// run that ends early has copied in complete batches stays.
std::vector<std::vector<std::size_t>> batches_of(const DataStores& stores, const std::vector<bool>& members,
                                                 std::uint64_t most) {
    std::vector<std::vector<std::size_t>> batches;
    std::uint64_t bytes = 0;
    for (std::size_t f = 0; f < stores.count(); ++f) {
        std::uint64_t own = 0;
        bool is_missing = false;
        for (std::size_t h = 0; h < members.size(); ++h) {
            if (!members[h] || stores.is_in_store(h, f)) continue;
            is_missing = true;
            own += stores.size(f);
        }
        if (!is_missing) continue;
        if (batches.empty() || bytes + own > most) {
            batches.emplace_back();
            bytes = 0;
        }
        batches.back().push_back(f);
        bytes += own;
    }
    return batches;
}

/// Plans the copies of `files`.
Migration plan_batch(const Managed& run, const DataStores& stores, const std::vector<bool>& members,
                     const std::vector<std::size_t>& files) {
    Migration job;
    job.origin = {.named = run.options.data_store, .folder = stores.folder(), .own = stores.folder(), .files = {}};
    job.opened.source.checkpoint.catalogue.directory = stores.folder();
    for (const std::size_t f : files) {
        const auto number = static_cast<std::uint32_t>(job.holders.size());
        const auto size = static_cast<Index>(stores.size(f));
        job.holders.push_back(stores.holders(f));
        job.opened.source.checkpoint.catalogue.files.push_back({stores.source(f), stores.size(f)});
        job.conversion.draft.files.push_back({stores.path(f), stores.size(f)});
        const Tensor whole{stores.path(f).string(), DType::u8, Shape(1, size)};
        for (auto* tensors :
             {&job.conversion.source_tensors, &job.conversion.target_tensors, &job.conversion.draft.tensors})
            tensors->push_back(whole);
        if (size == 0) continue;
        const Piece piece{
            .tensor = number, .file = number, .box = tpx::whole(whole.shape), .strides = row_major(whole.shape)};
        for (auto* pieces :
             {&job.conversion.source_pieces, &job.conversion.target_pieces, &job.conversion.draft.pieces})
            pieces->push_back(piece);
    }
    for (std::size_t h = 0; h < members.size(); ++h) {
        job.files_of_hosts.emplace_back();
        for (const std::size_t f : files) job.files_of_hosts.back().push_back(members[h] && !stores.is_in_store(h, f));
    }
    plan_host_transfers(run.options, job, run.team.hosts);
    return job;
}

/// By file of the batch: the checksums that the hosts computed while they wrote it. Collective.
std::vector<std::map<std::size_t, std::uint64_t>> written_crcs(const Managed& run, const Migration& job,
                                                               const FileCrcs& crcs) {
    const std::size_t files = job.conversion.draft.files.size();
    std::vector<std::uint64_t> all(files * run.team.hosts.size());
    const std::vector<bool>& here = job.files_of_hosts[run.team.host];
    std::uint32_t drafted = 0;
    for (std::size_t f = 0; f < files; ++f) {
        if (!here[f]) continue;
        const std::uint32_t file = drafted++;
        if (run.team.is_first(run.comm.rank())) all[run.team.host * files + f] = crcs.value(file);
    }
    mpi::all_sum(run.comm, all);
    std::vector<std::map<std::size_t, std::uint64_t>> by_file(files);
    for (std::size_t h = 0; h < run.team.hosts.size(); ++h)
        for (std::size_t f = 0; f < files; ++f)
            if (job.files_of_hosts[h][f]) by_file[f][h] = all[h * files + f];
    return by_file;
}

/// Removes what is in `incoming`, also what a killed run left, and the folder itself.
void remove_incoming(const Managed& run, const fs::path& incoming) {
    if (run.host.rank() != 0 || !entry_exists(incoming)) return;
    if (const std::string fault = remove_tree(incoming); !fault.empty()) throw failure("{}", fault);
}

/// Gives the files that this host has received their names, and records their checksums, which are in `written`.
void take_in_batch(const Managed& run, const DataStores& stores, const Migration& job,
                   const std::vector<std::size_t>& files,
                   const std::vector<std::map<std::size_t, std::uint64_t>>& written) {
    std::vector<std::size_t> own;
    std::vector<std::uint64_t> own_crcs;
    for (std::size_t k = 0; k < files.size(); ++k) {
        if (!job.files_of_hosts[run.team.host][k]) continue;
        own.push_back(files[k]);
        own_crcs.push_back(written[k].at(run.team.host));
    }
    if (!own.empty()) stores.take_in(own, own_crcs);
}

/// Copies the files of a batch into the data stores. Collective.
void copy_batch(const Managed& run, const DataStores& stores, const Migration& job,
                const std::vector<std::size_t>& files) {
    ExecOptions exec = limits_of(run.comm, run.options, job);
    std::optional<HostPart> part;
    fs::path incoming;
    mpi::all_or_none(run.comm, [&] {
        part.emplace(part_of_host(job, run.team.host, {}));
        // A host that gets nothing needs a folder all the same, for its messages, but no data store.
        incoming = part->draft.files.empty() ? run.store.staging(incoming_name) : stores.incoming();
        remove_incoming(run, incoming);
        if (run.host.rank() != 0) return;
        make_directories(incoming);
        check_room(incoming, bytes_on_disk(incoming, part->draft.files, part->inbox.size()), stores.folder(),
                   incoming_name, "");
    });
    FileCrcs crcs{part->draft};
    exec.file_crcs = &crcs;
    exec.cancelled = run.signal();
    const HostRun host_run{run.comm, run.host, run.team, job, *part};
    ReadRecord record;
    record.seal();
    make_files(host_run, incoming, record, exec);
    together(run.comm, [&] { DraftFiles{run.host, part->draft, incoming}.give_names(); });
    together(run.comm, [&] { crcs.combine(run.host); });
    const auto written = written_crcs(run, job, crcs);
    for (std::size_t k = 0; k < files.size(); ++k) stores.require_same(files[k], written[k]);
    mpi::all_or_none(run.comm, [&] {
        if (run.host.rank() == 0) take_in_batch(run, stores, job, files, written);
        remove_incoming(run, incoming);
    });
}

}  // namespace

void check_data_store(const MigrateRequest& request) {
    if (request.data_store.empty()) return;
    if (request.store.empty() || !request.export_to.empty())
        throw usage_error("--data-store: requires --store, and cannot be used with --export");
    if (request.data_store.find("{host}") == std::string::npos)
        throw usage_error("--data-store: '{}' has no {{host}} in it", request.data_store);
}

DataCopies copy_data_files(const Managed& run, const formats::DataPosition& position,
                           const std::vector<bool>& members) {
    constexpr std::uint64_t batch_bytes = std::uint64_t{16} << 30;
    std::optional<DataStores> stores;
    mpi::all_or_none(run.comm, [&] { stores.emplace(run, position); });
    stores->survey();
    DataCopies copies{.files = stores->count()};
    for (std::size_t f = 0; f < stores->count(); ++f) {
        copies.bytes += stores->size(f);
        stores->require_same(f, {});
        for (std::size_t h = 0; h < members.size(); ++h)
            if (members[h] && !stores->is_in_store(h, f)) copies.missing += stores->size(f);
    }
    for (const std::vector<std::size_t>& files : batches_of(*stores, members, batch_bytes)) {
        std::optional<Migration> job;
        mpi::all_or_none(run.comm, [&] { job.emplace(plan_batch(run, *stores, members, files)); });
        copies.crossing += job->change.relocation.total.other_host;
        if (!run.options.dry_run) copy_batch(run, *stores, *job, files);
    }
    return copies;
}

}  // namespace tpx::cli
