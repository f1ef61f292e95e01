// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "lib/core/file.hpp"

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace tpx::torch {

/// The bytes of a range that its readers looked at. These bytes and the range's length determine what they found.
struct ExaminedBytes {
    std::vector<std::pair<std::uint64_t, std::uint64_t>> parts;  ///< begin and end of each, in the order of reading
    bool at_ends = true;                                         ///< whether all of them are in the RangeEnds
};

/// Both ends of a range, which are read before anything else.
struct RangeEnds {
    std::string head;
    std::string tail;  ///< empty if `head` is the whole range
};

/// `length` bytes of an open file from `offset` on: a whole file, or one of many archives laid back to back. The file
/// must stay open as long as something reads the range.
struct FileRange {
    const Fd* fd = nullptr;
    std::filesystem::path path;  ///< for messages
    std::uint64_t offset = 0;
    std::uint64_t length = 0;
    std::uint64_t ends = 4096;          ///< size in bytes of each of the RangeEnds
    const RangeEnds* known = nullptr;   ///< both ends, if they have already been read
    ExaminedBytes* examined = nullptr;  ///< where readers of a zip archive record what they look at; may be null
    bool is_item = false;               ///< root() of an archive here is a list whose only item is the stored object

    /// Whether RangeEnds contain the whole range.
    bool is_short() const { return length <= 4 * ends; }
};

/// Reads both ends of a range, or all of a short one.
RangeEnds read_ends(const FileRange& range);

/// Reads parts of a range. Its first and last `ends` bytes are read only once, and a short range as a whole. Throws
/// Error for parts that are not completely inside.
class RangeReader {
public:
    explicit RangeReader(FileRange range);

    const FileRange& range() const { return range_; }
    void read(std::uint64_t position, std::span<std::byte> into) const;
    std::string read(std::uint64_t position, std::uint64_t size) const;

    /// Same as read(), but does not record the bytes as examined; the caller passes those that matter to examine().
    std::string peek(std::uint64_t position, std::uint64_t size) const;
    void examine(std::uint64_t position, std::uint64_t size) const;

private:
    void fetch(std::uint64_t position, std::span<std::byte> into) const;

    FileRange range_;
    RangeEnds ends_;
};

/// A member of a zip archive, as the central directory describes it. Positions are relative to the range.
struct ZipEntry {
    std::string name;  ///< without the root folder
    std::uint64_t header = 0;
    std::uint64_t record = 0;  ///< in the central directory
    std::uint64_t stored_size = 0;
    std::uint64_t size = 0;
    std::uint32_t crc = 0;
    bool deflated = false;
};

/// A zip archive as torch.save writes it: all members are in one folder and are found through the central directory;
/// zip64 and data descriptors are supported. Every size is checked against the range before it is used.
class Zip {
public:
    /// Whether all members are in one folder, as torch.save writes them, or need no folder and keep their whole names.
    enum class Root { one, none };

    /// Throws Error if the range is not a zip archive, is malformed, or has two root folders.
    explicit Zip(FileRange range, Root root = Root::one);

    const FileRange& range() const { return reader_.range(); }
    const std::vector<ZipEntry>& entries() const { return entries_; }  ///< sorted by name
    const std::string& root() const { return root_; }

    /// Null if there is no such member; names do not include the root folder: "data.pkl", "data/0".
    const ZipEntry* find(std::string_view name) const;

    /// Where the member's bytes start in the range. Throws Error if they are not inside.
    std::uint64_t payload(const ZipEntry& entry) const;

    /// The member's content, inflated if necessary. Throws Error if its size or CRC-32 differs from the one in the
    /// directory, or if it has more than `limit` bytes.
    std::string read(const ZipEntry& entry, std::uint64_t limit) const;

    /// Reads the member and throws Error when its content does not have the CRC-32 that the directory records. Members
    /// without CRC-32 pass (torch.save stores 0 if it is configured to compute none).
    void check_crc(const ZipEntry& entry) const;

    /// The same for a member whose content was read already.
    static void check_crc(const ZipEntry& entry, std::string_view content);

private:
    /// Calls `each` with the inflated content of a deflated member, chunk by chunk.
    template <class Each>
    void inflate_entry(const ZipEntry& entry, Each&& each) const;
    void add_entry(std::uint64_t position, std::string_view header, std::string_view name, std::string_view extra);
    void check_layout();

    RangeReader reader_;
    Root kind_;
    std::string root_;
    std::vector<ZipEntry> entries_;
    std::uint64_t directory_ = 0;  ///< where the central directory starts
};

}  // namespace tpx::torch
