// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace tpx::torch {

/// Lays out a zip archive as torch.save does: members stored under the folder "archive", sizes and CRC-32 in the local
/// headers, zip64 only if a number needs it. The contents of members may be left out, for the caller to write.
class ZipWriter {
public:
    /// Adds a member whose content starts at a multiple of `alignment`.
    void add(std::string_view name, std::string_view content, std::uint64_t alignment = 1);

    /// Adds a member whose `size` bytes are left out.
    void add_hole(std::string_view name, std::uint64_t size, std::uint64_t alignment);

    /// Ends the archive.
    void finish();

    /// The content of a member that was left out: where it belongs, and where its CRC-32 belongs, which is before the
    /// content and in the directory.
    struct Hole {
        std::uint64_t offset = 0;
        std::uint64_t size = 0;
        std::array<std::uint64_t, 2> crcs{};
    };
    const std::vector<Hole>& holes() const { return holes_; }

    /// The bytes before the first hole, between holes, and after the last one: one run more than there are holes.
    const std::vector<std::string>& runs() const { return runs_; }

    std::uint64_t size() const { return position(); }  ///< of the archive, holes included

private:
    struct Member {
        std::string name;
        std::uint64_t header = 0;
        std::uint64_t size = 0;
        std::uint32_t crc = 0;
        std::size_t hole = 0;  // its number plus one; 0: none
    };

    std::string& out() { return runs_.back(); }
    std::uint64_t position() const { return run_begin_ + runs_.back().size(); }
    void add_header(const Member& member, std::uint64_t alignment);
    void add_directory_entry(const Member& member);
    void add_end64(std::uint64_t directory, std::uint64_t size);

    std::vector<std::string> runs_{1};
    std::uint64_t run_begin_ = 0;  // of the last run
    std::vector<Hole> holes_;
    std::vector<Member> members_;
};

}  // namespace tpx::torch
