// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <sys/stat.h>

#include <cstdint>
#include <filesystem>
#include <map>
#include <mutex>
#include <string>

namespace tpx {

/// What tells one content of a file from another without reading it.
struct FileIdentity {
    std::uint64_t device = 0;
    std::uint64_t inode = 0;
    std::uint64_t size = 0;
    std::int64_t modified = 0;  ///< nanoseconds since 1970: the content was changed
    std::int64_t changed = 0;   ///< the content, name or mode was changed
    unsigned mode = 0;          ///< permissions

    explicit FileIdentity(const struct stat& status);
    FileIdentity() = default;

    /// Everything but the device, which differs between hosts that share a file system, and the mode.
    bool same_content(const FileIdentity& other) const;
};

/// "1234 bytes, modified 2026-11-22 23:59:59.123456789 UTC".
std::string to_string(const FileIdentity& identity);

/// While it lives, records every regular file that open_file() opens for reading or size_of_file() measures, as it was
/// the first time. When a recorded file is opened or measured again and is not the same any more, that call throws
/// Error "PATH: changed while it was being read". Of several records, the youngest counts. Any thread may open files,
/// but records live and die on one.
class ReadRecord {
public:
    ReadRecord();
    ~ReadRecord();
    ReadRecord(const ReadRecord&) = delete;
    ReadRecord& operator=(const ReadRecord&) = delete;

    /// From now on no file is added.
    void seal();

    /// By the paths that they were opened with.
    const std::map<std::filesystem::path, FileIdentity>& files() const { return files_; }

    /// Opens a recorded file anew. Throws Error "PATH: changed while it was being read" unless it is what it was.
    void check(const std::filesystem::path& path) const;

    /// Tells the youngest record, if there is one, about a file.
    static void note(const std::filesystem::path& path, const struct stat& status);
    static void note(const std::filesystem::path& path, int fd);

private:
    void add(const std::filesystem::path& path, const FileIdentity& identity);

    ReadRecord* older_;
    std::mutex mutex_;
    bool sealed_ = false;
    std::map<std::filesystem::path, FileIdentity> files_;
};

}  // namespace tpx
