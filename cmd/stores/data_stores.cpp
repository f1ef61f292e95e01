// SPDX-License-Identifier: Apache-2.0
#include "cmd/stores/data_stores.hpp"

#include "formats/files/merged_stores.hpp"
#include "formats/files/store/manifest.hpp"
#include "lib/core/error.hpp"
#include "lib/core/file.hpp"
#include "lib/core/path.hpp"
#include "lib/exec/partial.hpp"
#include "lib/exec/stop_signals.hpp"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>

#include <cerrno>
#include <utility>

namespace tpx::cli {
namespace {

namespace fs = std::filesystem;

}  // namespace

DataStores::DataStores(const ManagedRun& run, const formats::DataPosition& position)
    : run_{run}, files_{formats::stored_data_files(position)} {
    folder_ = fs::absolute(formats::store_of(run.options.data_store, run.team.hosts[run.team.host]));
    if (!run.options.data.empty()) originals_ = fs::absolute(fs::path{run.options.data}).parent_path();
}

void DataStores::survey() {
    std::string mine;
    mpi::all_or_none(run_.comm, [&] {
        if (is_first()) lock();
    });
    mpi::all_or_none(run_.comm, [&] {
        if (is_first()) mine = own_files().dump();
    });
    const std::vector<std::string> texts = mpi::all_gather(run_.comm, mine);
    found_.assign(run_.team.hosts.size(), std::vector<Found>(files_.size()));
    for (std::size_t h = 0; h < found_.size(); ++h) {
        if (run_.team.rank_of_host[h] < 0) continue;
        const auto list = nlohmann::ordered_json::parse(texts[static_cast<std::size_t>(run_.team.rank_of_host[h])]);
        for (std::size_t f = 0; f < files_.size(); ++f)
            found_[h][f] = {list[f].at(0), list[f].at(1), list[f].at(2), list[f].at(3), list[f].at(4)};
    }
    drop_absent_options();
    for (std::size_t f = 0; f < files_.size(); ++f) sizes_.push_back(agreed_size(f));
}

void DataStores::create() {
    if (lock_) return;
    make_directories(parent_of(folder_));
    if (::mkdir(folder_.c_str(), 0777) != 0) {
        if (errno != EEXIST) throw system_failure(folder_, errno);
        throw failure("{}: another run, or another host, has just created this data store; try again",
                      folder_.string());
    }
    lock();
}

void DataStores::check_places(const std::vector<std::size_t>& files) const {
    for (const std::size_t f : files) {
        const fs::path place = folder_ / path(f);
        if (path_is_directory(place))
            throw failure("{}: is a folder, but a data file belongs there; move or remove it", place.string());
        fs::path above = place.parent_path();
        while (above != folder_ && !path_exists(above)) above = above.parent_path();
        struct stat there {
        }, here{};
        if (::stat(folder_.c_str(), &here) != 0) continue;  // the data store will be created
        if (::stat(above.c_str(), &there) != 0) throw system_failure(above, errno);
        if (!S_ISDIR(there.st_mode)) throw failure("{}: is not a folder, but data files belong there", above.string());
        if (there.st_dev != here.st_dev)
            throw failure("{}: is on another file system than {}; each data store must be on one file system",
                          above.string(), folder_.string());
    }
}

void DataStores::check_sources(const std::vector<std::size_t>& files) const {
    for (const std::size_t f : files) {
        if (!before_.contains(f)) continue;
        const formats::StoredData now = formats::stored_data_at(source(f));
        if (now.size != before_.at(f).size || now.modified != before_.at(f).modified)
            throw failure("{}: changed while it was copied", source(f).string());
    }
}

std::vector<std::uint32_t> DataStores::holders(std::size_t f) const {
    std::vector<std::uint32_t> hosts;
    for (std::uint32_t h = 0; h < found_.size(); ++h)
        if (found_[h][f].in_store || found_[h][f].as_original) hosts.push_back(h);
    return hosts;
}

fs::path DataStores::source(std::size_t f) const {
    return (found_[run_.team.host][f].in_store ? folder_ : originals_) / path(f);
}

void DataStores::require_same(std::size_t f, const std::map<std::size_t, std::uint64_t>& crcs) const {
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

void DataStores::publish(const std::vector<std::size_t>& files, const std::vector<std::uint64_t>& crcs) const {
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

/// Keeps other runs, which may use other stores, from writing to the data store of this host.
void DataStores::lock() {
    if (run_.options.dry_run || !path_is_directory(folder_)) return;
    lock_ = open_file(folder_, O_RDONLY | O_DIRECTORY);
    if (::flock(lock_.get(), LOCK_EX | LOCK_NB) != 0)
        throw failure("{}: another run, or another host, uses this data store", folder_.string());
}

/// Removes optional files that no host has.
void DataStores::drop_absent_options() {
    for (std::size_t f = files_.size(); f-- > 0;) {
        if (!files_[f].is_optional || !holders(f).empty()) continue;
        files_.erase(files_.begin() + static_cast<std::ptrdiff_t>(f));
        for (std::vector<Found>& own : found_) own.erase(own.begin() + static_cast<std::ptrdiff_t>(f));
        std::map<std::size_t, formats::StoredData> moved;
        for (const auto& [number, state] : before_) moved.emplace(number > f ? number - 1 : number, state);
        before_ = std::move(moved);
    }
}

/// For each file: whether the store has it, whether the folder of --data has it, its size, checksum and mode.
nlohmann::ordered_json DataStores::own_files() {
    auto record = formats::read_data_record(folder_);
    bool is_new = false;
    auto list = nlohmann::ordered_json::array();
    for (std::size_t f = 0; f < files_.size(); ++f) {
        Found found{.in_store = path_is_file(folder_ / path(f)),
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

/// Sets the checksum of a file in the store: the one in `record` or, if that is missing or outdated, one computed from
/// the file. Returns whether it read the file.
bool DataStores::add_checksum(std::size_t f, formats::StoredData& now, Record& record) const {
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

/// Failures do no harm: without the record, the files are read again.
void DataStores::write_record(const Record& record) const {
    try {
        formats::write_data_record(folder_, record);
    } catch (const Error&) {  // a read-only data store
    }
}

std::uint64_t DataStores::agreed_size(std::size_t f) const {
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

}  // namespace tpx::cli
