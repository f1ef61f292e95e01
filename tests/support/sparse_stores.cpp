// SPDX-License-Identifier: Apache-2.0
// sparse_stores CKPT PATTERN HOSTS LAYOUT REPLICAS ITERATION: puts CKPT into managed stores of emulated hosts, as
// `tpx migrate --import` does, except that all tensor data is zero and stored as holes. So the stores of a model that
// is larger than any disk here have real metadata but take little space.
#include "cmd/plan/plan_hosts.hpp"
#include "cmd/stores/managed_target.hpp"
#include "formats/files/merged_stores.hpp"
#include "lib/core/crc.hpp"
#include "lib/core/error.hpp"
#include "lib/core/file.hpp"
#include "lib/core/path.hpp"
#include "lib/core/write_file.hpp"

#include <fcntl.h>
#include <fmt/format.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <string>
#include <vector>

namespace tpx::cli {
namespace {

namespace fs = std::filesystem;

/// For each file of the draft, its bytes that are not tensor data.
std::vector<std::vector<Draft::Fixed>> fixed_bytes(const Draft& draft) {
    std::vector<std::vector<Draft::Fixed>> fixed(draft.files.size());
    for (const Draft::Fixed& bytes : draft.fixed) fixed[bytes.file].push_back(bytes);
    for (const Draft::CrcSlot& slot : draft.crc_slots) {
        const Piece& piece = draft.pieces[slot.piece];
        const std::uint64_t length = slot.length > 0 ? slot.length
                                                     : static_cast<std::uint64_t>(volume(piece.box)) *
                                                           itemsize(draft.tensors[piece.tensor].dtype);
        const std::uint32_t crc = zip_crc(0, length);
        std::string bytes;
        for (int k = 0; k < 4; ++k) bytes += static_cast<char>(crc >> 8 * k);
        fixed[slot.file].push_back({slot.file, slot.offset, bytes});
    }
    return fixed;
}

/// The checksum of a file of `size` bytes that is zero except for `fixed`.
std::uint64_t crc_of(const std::vector<Draft::Fixed>& fixed, std::uint64_t size) {
    std::uint64_t crc = 0;
    for (const Draft::Fixed& part : fixed)
        crc ^= Crc64::shift(Crc64::of(std::as_bytes(std::span{part.bytes})), size - part.offset - part.bytes.size());
    return crc;
}

void write_sparse(const fs::path& path, std::uint64_t size, const std::vector<Draft::Fixed>& fixed) {
    make_directories(path.parent_path());
    const Fd fd = open_file(path, O_WRONLY | O_CREAT | O_EXCL);
    if (::ftruncate(fd.get(), static_cast<off_t>(size)) != 0) throw system_failure(path, errno);
    for (const Draft::Fixed& part : fixed) write_at(fd, part.offset, std::as_bytes(std::span{part.bytes}), path);
}

void make_stores(const std::vector<std::string>& words) {
    MigrateRequest options;
    options.store = words[1];
    options.plan.hosts = words[2];
    options.plan.to = words[3];
    options.plan.format = "dcp";
    options.replicas = std::stoi(words[4]);
    options.iteration = std::stoll(words[5]);
    const mpi::Comm self;
    Team team{.hosts = hosts_from_options(options.plan, 1)};
    team.rank_of_host.assign(team.hosts.size(), 0);
    const NodeStore first{fs::path{formats::store_of(options.store, team.hosts[0])}};
    const ManagedRun run{self, self, options, team, first, {}};
    ReadRecord record;
    const ManagedJob job = plan_import(run, words[0], MigrateTarget::stores, record);
    formats::Manifest manifest = planned_manifest(run, job, "0");
    const Draft& draft = job.migration.conversion.draft;
    const auto fixed = fixed_bytes(draft);
    for (std::size_t f = 0; f < draft.files.size(); ++f) manifest.files[f].crc = crc_of(fixed[f], draft.files[f].size);
    std::vector<fs::path> written(draft.files.size());
    for (std::size_t h = 0; h < team.hosts.size(); ++h) {
        const NodeStore store{fs::path{formats::store_of(options.store, team.hosts[h])}};
        const CreatedStore created{store.folder()};
        (void)store.create_and_lock(created);
        const fs::path folder = store.state(state_name(manifest));
        make_directories(folder);
        for (std::size_t f = 0; f < draft.files.size(); ++f) {
            if (!job.migration.files_of_hosts[h][f]) continue;
            const fs::path path = folder / draft.files[f].path;
            if (written[f].empty())
                write_sparse(path, draft.files[f].size, fixed[f]);
            else
                fs::create_hard_link(written[f], path);  // replicas take no space either
            written[f] = path;
        }
        write_file(folder / formats::manifest_name, formats::to_text(manifest));
        store.make_current(state_name(manifest));
    }
}

}  // namespace
}  // namespace tpx::cli

int main(int count, char** words) {
    try {
        if (count != 7) throw tpx::usage_error("six arguments are required");
        tpx::cli::make_stores({words + 1, words + count});
    } catch (const std::exception& error) {
        fmt::print(stderr, "sparse_stores: {}\n", error.what());
        return EXIT_FAILURE;
    }
}
