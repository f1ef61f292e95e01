// SPDX-License-Identifier: Apache-2.0
#include "lib/exec/wire/mirror.hpp"

#include "lib/core/error.hpp"
#include "lib/core/file.hpp"
#include "lib/core/fingerprint.hpp"
#include "lib/core/host_name.hpp"
#include "lib/core/path.hpp"
#include "lib/core/temporary_folder.hpp"
#include "lib/exec/broadcast_compressed.hpp"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <mutex>
#include <string_view>
#include <tuple>

namespace tpx {
namespace {

namespace fs = std::filesystem;

constexpr std::uint64_t block_size = std::uint64_t{64} << 10;  // bytes hashed at a time
constexpr std::uint64_t kept_size = 4096;                      // bytes kept together: most reads are far shorter
constexpr std::uint64_t compared_whole = std::uint64_t{16} << 20;
constexpr std::uint64_t sampled_blocks = 16;

/// What was read of a file.
struct ReadRange {
    std::uint64_t file = 0;
    std::uint64_t begin = 0;
    std::uint64_t end = 0;
};

std::uint64_t hash_of(const fs::path& path, std::uint64_t size) {
    const Fd fd = open_file(path, O_RDONLY);
    std::string bytes;
    Fingerprint print;
    const auto add = [&](std::uint64_t offset, std::uint64_t count) {
        bytes.resize(count);
        read_at(fd, offset, std::as_writable_bytes(std::span{bytes}), path);
        print.add(bytes);
    };
    if (size <= compared_whole) {
        for (std::uint64_t at = 0; at < size; at += block_size) add(at, std::min(block_size, size - at));
        return print.value();
    }
    for (std::uint64_t k = 0; k < sampled_blocks; ++k)
        add(k + 1 == sampled_blocks ? size - block_size : (size - block_size) / (sampled_blocks - 1) * k, block_size);
    return print.value();
}

// HDF5 files are opened by a separate process, to which no rank could send bytes.
void refuse_hdf5(const fs::path& path, std::uint64_t size) {
    constexpr std::string_view signature = "\x89HDF\r\n\x1a\n";
    std::array<char, 8> start{};
    if (size < start.size()) return;
    read_at(open_file(path, O_RDONLY), 0, std::as_writable_bytes(std::span{start}), path);
    if (std::string_view{start.data(), start.size()} == signature)
        throw failure(
            "{}: HDF5 files cannot be read from node-local stores; copy the checkpoint to storage that all "
            "hosts share, and use tpx reshard",
            path.string());
}

}  // namespace

Mirror::Mirror(const mpi::Comm& comm, const fs::path& store, int host, const std::vector<fs::path>* only,
               AnswerFileQuestion answer)
    : comm_{comm}, store_{store}, answer_{std::move(answer)} {
    list(host, only);
    try {
        mpi::all_or_none(comm, [&] { make_files(); });
    } catch (...) {
        std::error_code ignored;
        fs::remove_all(folder_, ignored);
        throw;
    }
}

Mirror::~Mirror() {
    std::error_code ignored;  // a folder of sparse files that is left behind does no harm
    fs::remove_all(folder_, ignored);
}

void Mirror::list(int host, const std::vector<fs::path>* only) {
    std::string mine;
    mpi::all_or_none(comm_, [&] {
        for (const fs::path& inside : only != nullptr ? *only : list_files_below(store_)) {
            const std::uint64_t size = size_of_file(store_ / inside);
            refuse_hdf5(store_ / inside, size);
            mine += fmt::format("{} {} {}", size, hash_of(store_ / inside, size), inside.string()) + '\0';
        }
    });
    const std::vector<std::string> hosts = mpi::all_gather(comm_, std::to_string(host));
    const std::vector<std::string> lists = mpi::all_gather(comm_, mine);
    std::map<std::string, std::pair<std::string, StoredFile>> found;  // by path, with size and hash as a text
    std::map<std::string, int> servers;
    for (std::size_t rank = 0; rank < lists.size(); ++rank) {
        for (std::size_t at = 0; at < lists[rank].size();) {
            const std::string entry{lists[rank].c_str() + at};
            at += entry.size() + 1;
            const std::size_t name = entry.find(' ', entry.find(' ') + 1);
            const std::string path = entry.substr(name + 1), content = entry.substr(0, name);
            const auto [known, is_new] = found.try_emplace(path, content, StoredFile{path, std::stoull(entry), {}});
            if (is_new) servers[path] = static_cast<int>(rank);
            auto& [expected, file] = known->second;
            const int owner = std::stoi(hosts[rank]);
            if (content != expected) refuse_different(path, servers[path], static_cast<int>(rank));
            if (file.hosts.empty() || file.hosts.back() != owner) file.hosts.push_back(owner);
        }
    }
    for (auto& [path, entry] : found) {
        std::ranges::sort(entry.second.hosts);
        entry.second.hosts.erase(std::ranges::unique(entry.second.hosts).begin(), entry.second.hosts.end());
        servers_.push_back(servers[path]);
        files_.push_back(std::move(entry.second));
    }
}

// All ranks compare the same lists, so that all of them find the same difference.
void Mirror::refuse_different(const std::string& path, int rank, int other) const {
    const std::vector<std::string> names = mpi::all_gather(comm_, host_name());
    const std::string& host = names[static_cast<std::size_t>(rank)];
    const std::string& other_host = names[static_cast<std::size_t>(other)];
    const std::string who =
        host == other_host ? fmt::format("ranks {} and {}", rank, other)
                           : fmt::format("rank {} on host {} and rank {} on host {}", rank, host, other, other_host);
    throw mpi::AgreedError{failure(
        "{}: differs between the stores of {}; the stores hold different checkpoints or iterations", path, who)};
}

void Mirror::make_files() {
    folder_ = make_temporary_folder("tpx-stores");
    for (std::size_t k = 0; k < files_.size(); ++k) {
        const fs::path path = folder_ / files_[k].path;
        make_directories(path.parent_path());
        const Fd fd = open_file(path, O_WRONLY | O_CREAT | O_EXCL);
        if (::ftruncate(fd.get(), static_cast<off_t>(files_[k].size)) != 0) throw system_failure(path, errno);
        struct stat status {};
        if (::fstat(fd.get(), &status) != 0) throw system_failure(path, errno);
        numbers_.emplace(std::pair{status.st_dev, status.st_ino}, k);
    }
}

bool Mirror::fill_from_blocks(std::size_t file, std::uint64_t offset, std::span<std::byte> into) const {
    while (!into.empty()) {
        const auto block = blocks_.find({file, offset / kept_size});
        if (block == blocks_.end()) return false;
        const std::uint64_t skip = offset % kept_size;
        if (skip >= block->second.size()) return false;
        const std::size_t count = std::min<std::size_t>(into.size(), block->second.size() - skip);
        std::memcpy(into.data(), block->second.data() + skip, count);
        into = into.subspan(count);
        offset += count;
    }
    return true;
}

void Mirror::fetch_blocks(FileFetcher& fetcher, std::size_t file, std::uint64_t begin, std::uint64_t end) {
    const std::uint64_t last = (end + kept_size - 1) / kept_size;
    const auto is_kept = [&](std::uint64_t block) { return blocks_.contains({file, block}); };
    std::uint64_t first = begin / kept_size;
    while (first < last && is_kept(first)) ++first;
    std::uint64_t behind = last;
    while (behind > first && is_kept(behind - 1)) --behind;
    if (first == behind) return;
    const std::uint64_t offset = first * kept_size;
    std::vector<std::byte> bytes(std::min(behind * kept_size, files_[file].size) - offset);
    fetcher.fetch(servers_[file], file, offset, bytes);
    ++traffic_.reads;
    traffic_.bytes_read += bytes.size();
    for (std::uint64_t block = first; block < behind; ++block) {
        const auto part = std::span{bytes}.subspan((block - first) * kept_size);
        const auto kept = part.first(std::min<std::size_t>(part.size(), kept_size));
        blocks_.insert_or_assign({file, block}, std::vector(kept.begin(), kept.end()));
    }
}

void Mirror::fetch_for(const std::function<void()>& body, bool keep) {
    const auto path_of_file = [&](std::size_t file) { return store_ / files_[file].path; };
    if (comm_.rank() != 0) return serve_reads(comm_, path_of_file, answer_);
    FileFetcher fetcher{comm_, path_of_file, answer_};
    std::mutex mutex;
    const auto fill = [&](const Fd& fd, std::uint64_t offset, std::span<std::byte> into) {
        struct stat status {};
        if (::fstat(fd.get(), &status) != 0) return false;
        const auto number = numbers_.find({status.st_dev, status.st_ino});
        if (number == numbers_.end()) return false;
        const std::size_t file = number->second;
        const std::uint64_t size = files_[file].size;
        if (offset + into.size() > size) return false;  // read_at() then reports the end of the file
        if (!keep) {
            fetcher.fetch(servers_[file], file, offset, into);
            return true;
        }
        const std::lock_guard lock{mutex};
        fetch_blocks(fetcher, file, offset, offset + into.size());
        if (!into.empty()) read_[file].add({offset, offset + into.size()});
        return fill_from_blocks(file, offset, into);
    };
    const ReadHook hook{fill};
    const QuestionHook questions{[&](std::span<const FileQuestion> asked) {
        const std::lock_guard lock{mutex};
        return ask(fetcher, asked, keep);
    }};
    fetcher.run(body);
}

void Mirror::read(const std::function<void()>& body) {
    fetch_for(body, true);
    share_what_was_read();
    mpi::all_or_none(comm_, [&] {
        if (comm_.rank() == 0) return;
        const ReadHook hook{[&](const Fd& fd, std::uint64_t offset, std::span<std::byte> into) {
            struct stat status {};
            if (::fstat(fd.get(), &status) != 0) return false;
            const auto number = numbers_.find({status.st_dev, status.st_ino});
            if (number == numbers_.end() || offset + into.size() > files_[number->second].size) return false;
            if (!fill_from_ranges(number->second, offset, into))
                throw failure("internal error: {} is read at {} by rank {} only; please report this",
                              files_[number->second].path.string(), offset, comm_.rank());
            return true;
        }};
        const QuestionHook questions{[&](std::span<const FileQuestion> asked) { return recorded_answers(asked); }};
        body();
    });
}

void Mirror::read_on_first(const std::function<void()>& body) { fetch_for(body, false); }

void Mirror::rehearse_read(const std::function<void()>& body) {
    fetch_for(body, true);
    mpi::all_or_none(comm_, [&] {
        if (comm_.rank() != 0 || comm_.size() == 1) return;
        const auto [places, bytes] = what_was_read();
        const auto [questions, answers] = what_was_answered();
        for (const std::string* text : {&places, &bytes, &questions, &answers})
            traffic_.bytes_shared += compressed_size(*text);
    });
}

// Exactly what was read: the blocks around many short reads have several times as many bytes, most of them payload.
std::pair<std::string, std::string> Mirror::what_was_read() const {
    std::string places, bytes;
    for (const auto& [file, all] : read_) {
        for (const ByteRange& range : all.ranges()) {
            const ReadRange read{file, range.begin, range.end};
            places.append(reinterpret_cast<const char*>(&read), sizeof read);
            const std::size_t at = bytes.size();
            bytes.resize(at + range.end - range.begin);
            if (!fill_from_blocks(file, range.begin, std::as_writable_bytes(std::span{bytes}.subspan(at))))
                throw failure("internal error: {} was read at {}, but not kept; please report this",
                              files_[file].path.string(), range.begin);
        }
    }
    return {std::move(places), std::move(bytes)};
}

void Mirror::share_what_was_read() {
    std::string places, bytes, questions, answers;
    mpi::all_or_none(comm_, [&] {  // only rank 0 has read anything
        std::tie(places, bytes) = what_was_read();
        std::tie(questions, answers) = what_was_answered();
    });
    for (std::string* text : {&places, &bytes, &questions, &answers})
        traffic_.bytes_shared += broadcast_compressed(comm_, *text);
    if (comm_.rank() == 0) return;
    record_answers(questions, answers);
    std::size_t at = 0;
    for (std::size_t k = 0; k < places.size(); k += sizeof(ReadRange)) {
        ReadRange read;
        std::memcpy(&read, places.data() + k, sizeof read);
        ranges_.emplace(std::pair{read.file, read.begin}, bytes.substr(at, read.end - read.begin));
        at += read.end - read.begin;
    }
}

bool Mirror::fill_from_ranges(std::size_t file, std::uint64_t offset, std::span<std::byte> into) const {
    if (into.empty()) return true;
    auto range = ranges_.upper_bound({file, offset});
    if (range == ranges_.begin()) return false;
    --range;
    const auto& [place, bytes] = *range;
    if (place.first != file || offset + into.size() > place.second + bytes.size()) return false;
    std::memcpy(into.data(), bytes.data() + (offset - place.second), into.size());
    return true;
}

bool Mirror::was_read(std::size_t file) const {
    const auto answer = answers_.lower_bound({file, 0});
    if (answer != answers_.end() && answer->first.first == file) return true;
    if (comm_.rank() == 0) return read_.contains(file);
    const auto range = ranges_.lower_bound({file, 0});
    return range != ranges_.end() && range->first.first == file;
}

}  // namespace tpx
