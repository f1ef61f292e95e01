// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <sys/stat.h>

#include <cstdint>
#include <filesystem>
#include <map>
#include <mutex>
#include <string>

namespace tpx {

/// Distinguishes one content of a file from another without reading it.
struct FileIdentity {
    std::uint64_t device = 0;
    std::uint64_t inode = 0;
    std::uint64_t size = 0;
    std::int64_t modified = 0;  ///< when the content last changed, in nanoseconds since 1970
    std::int64_t changed = 0;   ///< when the content, name or mode last changed
    unsigned mode = 0;          ///< permissions

    explicit FileIdentity(const struct stat& status);
    FileIdentity() = default;

    /// Compares everything except the mode and the device, which differs between hosts that share a file system.
    bool same_content(const FileIdentity& other) const;
};

/// "1234 bytes, modified 2026-11-22 23:59:59.123456789 UTC".
std::string to_string(const FileIdentity& identity);

/// While a ReadRecord exists, it records every regular file that open_file() opens for reading or size_of_file()
/// measures, as the file was the first time. When a recorded file is opened or measured again and has changed, that
/// call throws Error "PATH: changed while tpx was reading the checkpoint (...)". If several records exist, only the
/// youngest is used. Any thread may open files, but one thread must create and destroy all records.
class ReadRecord {
public:
    ReadRecord();
    ~ReadRecord();
    ReadRecord(const ReadRecord&) = delete;
    ReadRecord& operator=(const ReadRecord&) = delete;

    /// From now on, adds no files.
    void seal();

    /// The recorded files by the paths with which they were opened.
    const std::map<std::filesystem::path, FileIdentity>& files() const { return files_; }

    /// Opens a recorded file again. Throws the same Error if it has changed.
    void check(const std::filesystem::path& path) const;

    /// Adds a file to the youngest record, if there is one, or compares the file with what was recorded.
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
