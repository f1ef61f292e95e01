// SPDX-License-Identifier: Apache-2.0
#include "cmd/stores/node_store.hpp"

#include "lib/core/error.hpp"
#include "lib/core/path.hpp"
#include "lib/core/write_file.hpp"
#include "lib/exec/remove.hpp"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <chrono>
#include <thread>
#include <utility>

namespace tpx::cli {
namespace {

namespace fs = std::filesystem;

void sync_folder(const fs::path& folder) {
    const Fd fd = open_file(folder, O_RDONLY | O_DIRECTORY);
    if (::fsync(fd.get()) != 0) throw system_failure(folder, errno);
}

void rename_entry(const fs::path& from, const fs::path& to) {
    if (::rename(from.c_str(), to.c_str()) != 0) throw system_failure(to, errno);
}

void remove_synced(const fs::path& path) {
    if (!entry_exists(path)) return;
    if (const std::string fault = remove_tree(path); !fault.empty()) throw failure("{}", fault);
    sync_folder(path.parent_path());
}

void remove_file(const fs::path& file) {
    if (!entry_exists(file)) return;
    if (::unlink(file.c_str()) != 0) throw system_failure(file, errno);
    sync_folder(file.parent_path());
}

}  // namespace

CreatedStore::CreatedStore(const fs::path& store) {
    for (const char* name : {"states", "staging"})
        if (!path_exists(store / name)) folders_.push_back(store / name);
    for (fs::path folder = store; !folder.empty() && !path_exists(folder); folder = folder.parent_path())
        folders_.push_back(folder);
    parts_ = {store / "states", store / "staging"};
}

void CreatedStore::create() const {
    for (const fs::path& part : parts_) make_directories(part);
    if (!parts_.empty()) sync_folder(parts_.front().parent_path());
}

void CreatedStore::remove_if_empty() noexcept {
    try {
        for (const fs::path& part : parts_)
            if (!list_directory(part).empty()) return;
        for (const fs::path& folder : folders_)
            if (::rmdir(folder.c_str()) != 0) return;
    } catch (const std::exception&) {  // an empty folder that remains does no harm
    }
}

Fd NodeStore::create_and_lock(const CreatedStore& created) const {
    // Readers lock a store only for a moment, unless they complete a switch that was interrupted.
    constexpr std::chrono::milliseconds patience{2000}, pause{50};
    for (std::chrono::milliseconds waited{0}; waited < patience; waited += pause) {
        created.create();
        if (Fd lock = try_to_lock()) return lock;
        std::this_thread::sleep_for(pause);
    }
    throw failure("{}: another tpx migrate is changing this store; wait for it or stop it", folder_.string());
}

Fd NodeStore::try_to_lock() const {
    if (!path_is_directory(folder_)) return Fd{};
    Fd lock = open_file(folder_, O_RDONLY | O_DIRECTORY);
    if (::flock(lock.get(), LOCK_EX | LOCK_NB) != 0 && errno == EWOULDBLOCK) return Fd{};
    // The run that had the lock may have removed the store, which it had created.
    struct stat status {};
    return ::fstat(lock.get(), &status) == 0 && status.st_nlink == 0 ? Fd{} : std::move(lock);
}

Fd NodeStore::use_state(const std::string& state) const {
    Fd lock = open_file(this->state(state), O_RDONLY | O_DIRECTORY);
    // A pruning run holds the lock for a moment to check whether the state is in use.
    for (int tries = 0; ::flock(lock.get(), LOCK_SH | LOCK_NB) != 0 && errno == EWOULDBLOCK; ++tries) {
        constexpr int most = 20;
        if (tries == most)
            throw failure("{}: another tpx migrate is removing this state; try again", this->state(state).string());
        std::this_thread::sleep_for(std::chrono::milliseconds{100});
    }
    return lock;
}

std::string NodeStore::current() const {
    const fs::path link = folder_ / "current";
    if (!entry_exists(link)) return {};
    std::error_code error;
    const fs::path target = fs::read_symlink(link, error);
    if (error || target.parent_path() != "states" || !target.has_filename())
        throw failure("{}: is not a link to a state", link.string());
    if (!path_is_directory(link)) throw failure("{}: leads to {}, which is missing", link.string(), target.string());
    return target.filename();
}

std::string NodeStore::linked_state() const {
    std::error_code error;
    const fs::path target = fs::read_symlink(folder_ / "current", error);
    return !error && target.parent_path() == "states" ? target.filename().string() : std::string{};
}

void NodeStore::make_current(const std::string& state) const {
    const fs::path link = folder_ / "current";
    std::error_code error;
    if (fs::read_symlink(link, error).empty() && path_is_directory(link)) {  // may contain data, so it is not removed
        std::size_t number = 1;
        const auto aside = [&] { return staging(fmt::format("{}{}", replaced_current_prefix, number)); };
        while (entry_exists(aside())) ++number;
        rename_entry(link, aside());
        sync_folder(folder_ / "staging");
    }
    const fs::path fresh = folder_ / "current.new";
    if (entry_exists(fresh) && ::unlink(fresh.c_str()) != 0) throw system_failure(fresh, errno);
    if (::symlink(("states/" + state).c_str(), fresh.c_str()) != 0) throw system_failure(fresh, errno);
    rename_entry(fresh, link);
    sync_folder(folder_);
}

formats::Manifest NodeStore::manifest(const std::string& state) const {
    const fs::path file = this->state(state) / formats::manifest_name;
    return formats::parse_manifest(read_file(file), file);
}

void NodeStore::write(const formats::SwitchRecord& record) const {
    const bool is_prepared = record.phase == formats::SwitchRecord::SwitchPhase::prepared;
    write_file(folder_ / (is_prepared ? "prepared" : "decision"), formats::to_text(record));
}

void NodeStore::remove_prepared() const { remove_file(folder_ / "prepared"); }

void NodeStore::remove_damaged_records() const {
    for (const char* name : {"prepared", "decision"}) {
        try {
            formats::read_record(folder_ / name);
        } catch (const Error&) {
            remove_file(folder_ / name);
        }
    }
}

std::vector<std::string> NodeStore::states() const { return list_directory(folder_ / "states"); }

std::vector<std::string> NodeStore::stagings() const { return list_directory(folder_ / "staging"); }

void NodeStore::promote_staged_state(const std::string& change, const std::string& state) const {
    remove_state(state);
    rename_entry(staging(change), this->state(state));
    sync_folder(folder_ / "states");
    sync_folder(folder_ / "staging");
}

void NodeStore::return_to_staging(const std::string& change, const std::string& state) const {
    if (!entry_exists(this->state(state))) return;
    if (state == linked_state()) throw failure("{}: is the current state", this->state(state).string());
    bool is_of_change = false;
    try {
        is_of_change = manifest(state).change == change;
    } catch (const Error&) {  // the manifest is damaged
    }
    if (!is_of_change) return remove_state(state);
    remove_staging(change);
    rename_entry(this->state(state), staging(change));
    sync_folder(folder_ / "staging");
    sync_folder(folder_ / "states");
}

void NodeStore::remove_state(const std::string& state) const {
    if (!entry_exists(this->state(state))) return;
    if (state == linked_state()) throw failure("{}: is the current state", this->state(state).string());
    remove_synced(this->state(state));
}

bool NodeStore::remove_unused_state(const std::string& state) const {
    if (!path_is_directory(this->state(state))) {
        remove_state(state);
        return true;
    }
    const Fd lock = open_file(this->state(state), O_RDONLY | O_DIRECTORY);
    if (::flock(lock.get(), LOCK_EX | LOCK_NB) != 0 && errno == EWOULDBLOCK) return false;
    remove_state(state);
    return true;
}

void NodeStore::rename_staging(const std::string& from, const std::string& to) const {
    if (from == to) return;
    remove_staging(to);
    rename_entry(staging(from), staging(to));
    sync_folder(folder_ / "staging");
}

void NodeStore::remove_staging(const std::string& name) const { remove_synced(staging(name)); }

}  // namespace tpx::cli
