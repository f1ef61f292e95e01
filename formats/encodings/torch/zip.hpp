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

/// The bytes of a range that its readers looked at; they and its length decide what was found in it.
struct ExaminedBytes {
    std::vector<std::pair<std::uint64_t, std::uint64_t>> parts;  ///< begin and end of each, in the order of reading
    bool at_ends = true;  ///< whether all of them are among the bytes that are read ahead
};

/// The bytes that are read ahead of a range.
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
    std::uint64_t ends = 4096;          ///< bytes that are read ahead at each end
    const RangeEnds* known = nullptr;   ///< these bytes, if they have been read already
    ExaminedBytes* examined = nullptr;  ///< where readers of a zip archive record what they look at; may be null
    bool is_item = false;               ///< root() of an archive here is a list whose only item is the stored object

    /// Whether all bytes are read ahead.
    bool is_short() const { return length <= 4 * ends; }
};

/// Reads the bytes that are read ahead of a range.
RangeEnds read_ends(const FileRange& range);

/// Reads parts of a range. Its first and last `ends` bytes are read once, a range of at most four times as many as a
/// whole. Throws Error for parts that are not all inside.
class RangeReader {
public:
    explicit RangeReader(FileRange range);

    const FileRange& range() const { return range_; }
    void read(std::uint64_t position, std::span<std::byte> into) const;
    std::string read(std::uint64_t position, std::uint64_t size) const;

    /// The same, for bytes of which examine() is told the part that matters.
    std::string peek(std::uint64_t position, std::uint64_t size) const;
    void examine(std::uint64_t position, std::uint64_t size) const;

private:
    void fetch(std::uint64_t position, std::span<std::byte> into) const;

    FileRange range_;
    RangeEnds ends_;
};

/// A member of a zip archive, as the central directory tells it. Positions are relative to the range.
struct ZipEntry {
    std::string name;  ///< without the root folder
    std::uint64_t header = 0;
    std::uint64_t record = 0;  ///< in the central directory
    std::uint64_t stored_size = 0;
    std::uint64_t size = 0;
    std::uint32_t crc = 0;
    bool deflated = false;
};

/// The zip archive that torch.save writes: all members under one folder, found through the central directory; zip64
/// and data descriptors included. Every size is checked against the range before it is used.
class Zip {
public:
    /// Whether all members lie in one folder, as torch.save has it, or in none, where names are kept whole.
    enum class Root { one, none };

    /// Throws Error when the range holds no archive, a malformed one, or one with two root folders.
    explicit Zip(FileRange range, Root root = Root::one);

    const FileRange& range() const { return reader_.range(); }
    const std::vector<ZipEntry>& entries() const { return entries_; }  ///< sorted by name
    const std::string& root() const { return root_; }

    /// Null when there is no such member; names carry no root folder: "data.pkl", "data/0".
    const ZipEntry* find(std::string_view name) const;

    /// Where the member's bytes start in the range. Throws Error when they do not lie inside.
    std::uint64_t payload(const ZipEntry& entry) const;

    /// The member's content, inflated if need be. Throws Error when its size or CRC-32 is not the one that the
    /// directory records, or when it has more than `limit` bytes.
    std::string read(const ZipEntry& entry, std::uint64_t limit) const;

    /// Reads the member and throws Error when its content does not have the CRC-32 that the directory records. Members
    /// without CRC-32 (torch.save can be told to compute none, and stores 0) pass.
    void check_crc(const ZipEntry& entry) const;

    /// The same for a member whose content was read already.
    static void check_crc(const ZipEntry& entry, std::string_view content);

private:
    /// Calls `each` with the inflated content of a deflated member, stretch by stretch.
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
