// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "lib/core/file_questions.hpp"
#include "lib/exec/byte_ranges.hpp"
#include "lib/exec/mpi.hpp"
#include "lib/exec/wire/file_fetcher.hpp"

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

namespace tpx {

/// A file of node-local stores.
struct StoredFile {
    std::filesystem::path path;  ///< relative to the store
    std::uint64_t size = 0;
    std::vector<int> hosts;  ///< hosts whose stores have the file, ascending
};

/// What read() fetches from stores and sends to other ranks.
struct MirrorTraffic {
    std::uint64_t reads = 0;         ///< requests to the ranks whose stores have the files
    std::uint64_t bytes_read = 0;    ///< bytes that rank 0 received from them
    std::uint64_t bytes_shared = 0;  ///< compressed bytes that rank 0 then sent to each of the other ranks
};

/// Presents the stores of all hosts as one folder, although each host sees only its own store. Each rank has its own
/// folder, with a sparse file of the right size for each file of a store; reads of such a file are fetched from a host
/// that has the file, and FileQuestions about it are answered there. Intended for opening a checkpoint, because the
/// bytes read are kept in memory.
class Mirror {
public:
    /// Lists `store`, the store of host number `host`; an absent store has no files. Throws an mpi::AgreedError if two
    /// stores have different files with the same name: files up to 16 MiB are compared by a hash of their content,
    /// larger ones by a hash of 16 samples of 64 KiB. If `only` is given, other files of the store are ignored.
    /// `answer` answers FileQuestions about files of `store`. Collective.
    Mirror(const mpi::Comm& comm, const std::filesystem::path& store, int host,
           const std::vector<std::filesystem::path>* only, AnswerFileQuestion answer);

    /// Removes the folder.
    ~Mirror();
    Mirror(const Mirror&) = delete;
    Mirror& operator=(const Mirror&) = delete;

    const mpi::Comm& comm() const { return comm_; }
    const std::filesystem::path& folder() const { return folder_; }
    const std::vector<StoredFile>& files() const { return files_; }

    /// Runs `body` on every rank: first on rank 0, to which the other ranks send what it reads in the folder, then on
    /// the others, which receive exactly these bytes and must read no others. `body` must not communicate. Throws an
    /// mpi::AgreedError. Collective.
    void read(const std::function<void()>& body);

    /// Runs `body` on rank 0 only, and keeps nothing of what it reads. Collective.
    void read_on_first(const std::function<void()>& body);

    /// Runs `body` on rank 0 only, with the same traffic() as read(). Collective.
    void rehearse_read(const std::function<void()>& body);

    /// The traffic that rank 0 has counted.
    const MirrorTraffic& traffic() const { return traffic_; }

    /// Whether rank 0 has read any of file number `file`, or asked about it.
    bool was_read(std::size_t file) const;

private:
    void list(int host, const std::vector<std::filesystem::path>* only);
    [[noreturn]] void refuse_different(const std::string& path, int rank, int other) const;
    void make_files();
    void fetch_for(const std::function<void()>& body, bool keep);
    void fetch_blocks(FileFetcher& fetcher, std::size_t file, std::uint64_t begin, std::uint64_t end);
    bool fill_from_blocks(std::size_t file, std::uint64_t offset, std::span<std::byte> into) const;
    std::pair<std::string, std::string> what_was_read() const;
    void share_what_was_read();
    bool fill_from_ranges(std::size_t file, std::uint64_t offset, std::span<std::byte> into) const;
    std::optional<std::vector<std::size_t>> numbers_of(std::span<const FileQuestion> questions) const;
    std::optional<std::vector<std::string>> ask(FileFetcher& fetcher, std::span<const FileQuestion> questions,
                                                bool keep);
    std::optional<std::vector<std::string>> recorded_answers(std::span<const FileQuestion> questions) const;
    std::pair<std::string, std::string> what_was_answered() const;
    void record_answers(const std::string& questions, const std::string& answers);

    const mpi::Comm& comm_;
    std::filesystem::path store_;
    std::filesystem::path folder_;
    AnswerFileQuestion answer_;
    std::vector<StoredFile> files_;
    std::vector<int> servers_;                                                        // by file, the rank that reads it
    std::map<std::pair<std::uint64_t, std::uint64_t>, std::size_t> numbers_;          // of files, by device and inode
    std::map<std::pair<std::size_t, std::uint64_t>, std::vector<std::byte>> blocks_;  // by file and block number
    std::map<std::size_t, ByteRanges> read_;                                          // by file, on rank 0
    std::map<std::pair<std::size_t, std::uint64_t>, std::string> ranges_;   // by file and offset, on other ranks
    std::map<std::pair<std::size_t, std::uint64_t>, std::string> answers_;  // by file and hash of the question
    MirrorTraffic traffic_;                                                 // on rank 0
};

}  // namespace tpx
