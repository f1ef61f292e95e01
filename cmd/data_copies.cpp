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
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <map>
#include <optional>

namespace tpx::cli {
namespace {

namespace fs = std::filesystem;
using Json = nlohmann::ordered_json;

/// The folder in a data store for files that are not complete yet.
constexpr const char* incoming_name = "tpx.incoming";

/// Where a host has a data file.
struct FoundData {
    bool in_store = false;
    bool as_original = false;  ///< in the folder of --data
    std::uint64_t size = 0;
    std::uint64_t crc = 0;  ///< of a file in the store
    unsigned mode = 0600;
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
            if (is_first()) lock();
        });
        mpi::all_or_none(run_.comm, [&] {
            if (is_first()) mine = own_files().dump();
        });
        const std::vector<std::string> texts = mpi::all_gather(run_.comm, mine);
        found_.assign(run_.team.hosts.size(), std::vector<FoundData>(files_.size()));
        for (std::size_t h = 0; h < found_.size(); ++h) {
            if (run_.team.rank_of_host[h] < 0) continue;
            const Json list = Json::parse(texts[static_cast<std::size_t>(run_.team.rank_of_host[h])]);
            for (std::size_t f = 0; f < files_.size(); ++f)
                found_[h][f] = {list[f].at(0), list[f].at(1), list[f].at(2), list[f].at(3), list[f].at(4)};
        }
        drop_absent_options();
        for (std::size_t f = 0; f < files_.size(); ++f) sizes_.push_back(agreed_size(f));
    }

    /// Throws Error if a file that this host has read, or may have sent, is not what it was. `files` are their numbers.
    void check_sources(const std::vector<std::size_t>& files) const {
        for (const std::size_t f : files) {
            if (!before_.contains(f)) continue;
            const formats::StoredData now = formats::stored_data_at(source(f));
            if (now.size != before_.at(f).size || now.modified != before_.at(f).modified)
                throw failure("{}: changed while it was copied", source(f).string());
        }
    }

    std::size_t count() const { return files_.size(); }
    std::uint64_t size(std::size_t f) const { return sizes_[f]; }
    const fs::path& path(std::size_t f) const { return files_[f].path; }
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
        return (found_[run_.team.host][f].in_store ? folder_ : originals_) / path(f);
    }

    /// Throws an mpi::AgreedError unless `crcs`, by host, agree with each other and with those in the stores.
    void require_same(std::size_t f, const std::map<std::size_t, std::uint64_t>& crcs) const {
        std::map<std::size_t, std::uint64_t> all = crcs;
        for (std::size_t h = 0; h < found_.size(); ++h)
            if (found_[h][f].in_store) all.emplace(h, found_[h][f].crc);
        for (const auto& [host, crc] : all)
            if (crc != all.begin()->second)
                throw mpi::AgreedError{
                    failure("data file '{}': its content on host '{}' differs from that on host "
                            "'{}' (CRC-64 {:016x} and {:016x}); remove the wrong copy",
                            path(f).string(), run_.team.hosts[host].name, run_.team.hosts[all.begin()->first].name, crc,
                            all.begin()->second)};
    }

    /// Gives the files of this host that are complete in incoming() their names, and records their checksums.
    void take_in(const std::vector<std::size_t>& files, const std::vector<std::uint64_t>& crcs) const {
        auto record = formats::read_data_record(folder_);
        for (std::size_t k = 0; k < files.size(); ++k) {
            const fs::path& path = files_[files[k]].path;
            if (::chmod((incoming() / path).c_str(), mode(files[k])) != 0) throw system_failure(folder_ / path, errno);
            make_directories((folder_ / path).parent_path());
            if (::rename((incoming() / path).c_str(), (folder_ / path).c_str()) != 0)
                throw system_failure(folder_ / path, errno);
            record[path.string()] = formats::stored_data_at(folder_ / path);
            record[path.string()].crc = crcs[k];
        }
        formats::write_data_record(folder_, record);
    }

private:
    unsigned mode(std::size_t f) const { return found_[holders(f).front()][f].mode; }

    /// Keeps other runs, which may use other stores, from writing in the data store of this host.
    void lock() {
        if (run_.options.dry_run || !path_is_directory(folder_)) return;
        lock_ = open_file(folder_, O_RDONLY | O_DIRECTORY);
        if (::flock(lock_.get(), LOCK_EX | LOCK_NB) != 0)
            throw failure("{}: another run, or another host, uses this data store", folder_.string());
    }

    /// Removes optional files that no host has.
    void drop_absent_options() {
        for (std::size_t f = files_.size(); f-- > 0;) {
            if (!files_[f].is_optional || !holders(f).empty()) continue;
            files_.erase(files_.begin() + static_cast<std::ptrdiff_t>(f));
            for (std::vector<FoundData>& own : found_) own.erase(own.begin() + static_cast<std::ptrdiff_t>(f));
            std::map<std::size_t, formats::StoredData> moved;
            for (const auto& [number, state] : before_) moved.emplace(number > f ? number - 1 : number, state);
            before_ = std::move(moved);
        }
    }

    bool is_first() const { return run_.team.is_first(run_.comm.rank()); }

    /// Of each file: whether the store has it, whether the folder of --data has it, its size, checksum and mode.
    Json own_files() {
        auto record = formats::read_data_record(folder_);
        bool is_new = false;
        Json list = Json::array();
        for (std::size_t f = 0; f < files_.size(); ++f) {
            FoundData found{.in_store = path_is_file(folder_ / path(f)),
                            .as_original = !originals_.empty() && path_is_file(originals_ / path(f))};
            if (found.in_store || found.as_original) {
                formats::StoredData now = formats::stored_data_at((found.in_store ? folder_ : originals_) / path(f));
                if (found.in_store && !run_.options.dry_run) is_new = add_checksum(f, now, record) || is_new;
                before_[f] = now;
                found.size = now.size;
                found.crc = now.crc;
                found.mode = now.mode;
            }
            list.push_back({found.in_store, found.as_original, found.size, found.crc, found.mode});
        }
        if (is_new) write_record(record);
        return list;
    }

    /// Sets the checksum of a file in the store, which is read unless `record` has it; says whether it was read.
    bool add_checksum(std::size_t f, formats::StoredData& now,
                      std::map<std::string, formats::StoredData>& record) const {
        const auto known = record.find(path(f).string());
        if (known != record.end() && known->second.size == now.size && known->second.modified == now.modified) {
            now.crc = known->second.crc;
            return false;
        }
        now.crc = formats::crc_of_file(folder_ / path(f), now.size, [&](std::uint64_t) {
            check_not_stopped(run_.signal(), "; no data file was changed");
        });
        record[path(f).string()] = now;
        return true;
    }

    /// Without the record, the files are only read again.
    void write_record(const std::map<std::string, formats::StoredData>& record) const {
        try {
            formats::write_data_record(folder_, record);
        } catch (const Error&) {  // a data store that is only read
        }
    }

    std::uint64_t agreed_size(std::size_t f) const {
        const std::vector<std::uint32_t> hosts = holders(f);
        if (hosts.empty())
            throw mpi::AgreedError{Error{Exit::no,
                                         "data file '{}': not found in any data store ({}) or in the folder of --data; "
                                         "copy it to the data store of one host",
                                         path(f).string(), run_.options.data_store}};
        for (const std::uint32_t host : hosts)
            if (found_[host][f].size != found_[hosts[0]][f].size)
                throw mpi::AgreedError{
                    failure("data file '{}': has {} bytes on host '{}' and {} on host '{}'; remove the "
                            "wrong copy",
                            path(f).string(), found_[hosts[0]][f].size, run_.team.hosts[hosts[0]].name,
                            found_[host][f].size, run_.team.hosts[host].name)};
        return found_[hosts[0]][f].size;
    }

    const Managed& run_;
    std::vector<formats::DataStoreFile> files_;
    fs::path folder_;                                    // of this host
    fs::path originals_;                                 // of --data; empty: not given
    std::vector<std::vector<FoundData>> found_;          // by host and file
    std::vector<std::uint64_t> sizes_;                   // by file
    std::map<std::size_t, formats::StoredData> before_;  // what this host has, by file, on its first rank
    Fd lock_;
};

/// Throws Error (usage) if one of two folders is inside the other: a managed store removes what it does not know.
void check_apart(const fs::path& data, const fs::path& store) {
    const auto real = [](const fs::path& folder) { return fs::weakly_canonical(folder); };
    const fs::path a = real(data), b = real(store);
    const auto differ = std::ranges::mismatch(a, b);
    if (differ.in1 == a.end() || differ.in2 == b.end())
        throw usage_error("--data-store: {} and the store {} must be apart", data.string(), store.string());
}

/// The files that some of `members` lack, in batches of which at most `most` bytes are written on all hosts; one file
/// may exceed it. An interrupted run keeps complete batches.
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

/// Copies the files of a batch, of which `part` are those of this host, to `incoming`, and then into the data stores.
void copy_through(const Managed& run, const DataStores& stores, const Migration& job,
                  const std::vector<std::size_t>& files, HostPart& part, const fs::path& incoming) {
    ExecOptions exec = limits_of(run.comm, run.options, job);
    FileCrcs crcs{part.draft};
    exec.file_crcs = &crcs;
    exec.cancelled = run.signal();
    const HostRun host_run{run.comm, run.host, run.team, job, part};
    ReadRecord record;  // of nothing: data files are compared by their times
    record.seal();
    make_files(host_run, incoming, record, exec);
    together(run.comm, [&] { DraftFiles{run.host, part.draft, incoming}.give_names(); });
    together(run.comm, [&] { crcs.combine(run.host); });
    const auto written = written_crcs(run, job, crcs);
    mpi::all_or_none(run.comm, [&] { stores.check_sources(files); });
    for (std::size_t k = 0; k < files.size(); ++k) stores.require_same(files[k], written[k]);
    mpi::all_or_none(run.comm, [&] {
        if (run.host.rank() == 0) take_in_batch(run, stores, job, files, written);
    });
}

/// Copies the files of a batch into the data stores. Collective.
void copy_batch(const Managed& run, const DataStores& stores, const Migration& job,
                const std::vector<std::size_t>& files) {
    std::optional<HostPart> part;
    fs::path incoming;
    mpi::all_or_none(run.comm, [&] {
        part.emplace(part_of_host(job, run.team.host, {}));
        // A host that gets nothing needs a folder all the same, for its messages, but no data store.
        incoming = part->draft.files.empty() ? run.store.staging(incoming_name) : stores.incoming();
        remove_incoming(run, incoming);
        if (run.host.rank() != 0) return;
        make_directories(incoming);
        if (::chmod(incoming.c_str(), 0700) != 0) throw system_failure(incoming, errno);
        check_room(incoming, bytes_on_disk(incoming, part->draft.files, part->inbox.size()), incoming.parent_path(),
                   incoming_name, "");
    });
    try {
        copy_through(run, stores, job, files, *part, incoming);
    } catch (const mpi::AgreedError& error) {
        if (run.host.rank() == 0) remove_tree(incoming);
        throw mpi::AgreedError{
            Error{error.exit(), "{}; data files that are complete stay in {}", error.what(), run.options.data_store}};
    }
    mpi::all_or_none(run.comm, [&] { remove_incoming(run, incoming); });
}

}  // namespace

void check_data_store(const MigrateRequest& request) {
    if (request.data_store.empty()) return;
    if (request.store.empty()) throw usage_error("--data-store: requires --store");
    if (!request.export_to.empty()) throw usage_error("--data-store cannot be used with --export");
    if (request.data_store.find("{host}") == std::string::npos)
        throw usage_error("--data-store: '{}' must contain {{host}}", request.data_store);
}

DataCopies copy_data_files(const Managed& run, const formats::DataPosition& position,
                           const std::vector<bool>& members) {
    constexpr std::uint64_t batch_bytes = std::uint64_t{1} << 30;
    std::optional<DataStores> stores;
    mpi::all_or_none(run.comm, [&] {
        stores.emplace(run, position);
        check_apart(stores->folder(), run.store.folder());
    });
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
