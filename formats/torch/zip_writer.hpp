// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace tpx::torch {

/// Lays out a zip archive as torch.save does: members stored under the folder "archive", sizes and CRC-32 in the local
/// headers, zip64 only where a number needs it. One member's content may be left out, to be written by someone else.
class ZipWriter {
public:
    /// Adds a member whose content starts at a multiple of `alignment`.
    void add(std::string_view name, std::string_view content, std::uint64_t alignment = 1);

    /// Adds a member of `size` bytes that are not given. To be called once at most.
    void add_hole(std::string_view name, std::uint64_t size, std::uint64_t alignment);

    /// Ends the archive.
    void finish();

    const std::string& before_hole() const { return bytes_[0]; }  ///< all of it when there is no hole
    const std::string& behind_hole() const { return bytes_[1]; }
    /// Where the CRC-32 of the hole belongs in the archive.
    const std::array<std::uint64_t, 2>& hole_crcs() const { return hole_crcs_; }

private:
    struct Member {
        std::string name;
        std::uint64_t header = 0;
        std::uint64_t size = 0;
        std::uint32_t crc = 0;
        bool hole = false;
    };

    std::string& out() { return bytes_[hole_ ? 1 : 0]; }
    std::uint64_t position() const { return bytes_[0].size() + hole_size_ + bytes_[1].size(); }
    void add_header(const Member& member, std::uint64_t alignment);
    void add_directory_entry(const Member& member);
    void add_end64(std::uint64_t directory, std::uint64_t size);

    std::array<std::string, 2> bytes_;
    bool hole_ = false;
    std::uint64_t hole_size_ = 0;
    std::array<std::uint64_t, 2> hole_crcs_{};
    std::vector<Member> members_;
};

}  // namespace tpx::torch
