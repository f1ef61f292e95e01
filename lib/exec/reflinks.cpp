// SPDX-License-Identifier: Apache-2.0
#include "lib/exec/reflinks.hpp"

#include "lib/exec/image.hpp"

#include <sys/statvfs.h>

#include <algorithm>
#include <tuple>

namespace tpx {
namespace {

// Writing a shorter run takes less time than sharing it, and sharing it would split the file into many extents.
constexpr std::uint64_t least_shared = std::uint64_t{64} << 10;

auto target_place(const EqualRun& run) { return std::tuple{run.target_file, run.target}; }

bool continues(const EqualRun& run, const EqualRun& next) {
    return next.source_file == run.source_file && next.target_file == run.target_file && next.target == run.end() &&
           next.source == run.source + run.length;
}

// Trims a run to whole blocks. Returns whether enough is left.
bool cut(EqualRun& run, std::uint64_t block) {
    if (run.source % block != run.target % block) return false;
    const std::uint64_t head = (block - run.target % block) % block;
    if (run.length < head + least_shared) return false;
    run.source += head;
    run.target += head;
    run.length = (run.length - head) / block * block;
    return run.length > 0;
}

}  // namespace

std::optional<EqualRun> equal_run(const Piece& source, const Piece& target, int itemsize, const Box& box) {
    const Image from = image_of(source, itemsize, box);
    const Image to = image_of(target, itemsize, box);
    if (!from.is_run() || !to.is_run()) return std::nullopt;
    for (int k = 0; k < box.size(); ++k)
        if (box[k].size() > 1 && from.stored[k] != to.stored[k]) return std::nullopt;
    return EqualRun{source.file, target.file, from.begin, to.begin, from.bytes};
}

void cut_to_blocks(std::vector<EqualRun>& runs, std::uint64_t block) {
    std::ranges::sort(runs, {}, target_place);
    std::vector<EqualRun> joined;
    for (const EqualRun& run : runs) {
        if (!joined.empty() && continues(joined.back(), run))
            joined.back().length += run.length;
        else
            joined.push_back(run);
    }
    std::erase_if(joined, [&](EqualRun& run) { return !cut(run, block); });
    runs = std::move(joined);
}

Reflinks::Reflinks(SourceFiles& sources, FileWriter& targets, std::size_t count, std::optional<std::uint32_t> busy)
    : sources_{sources}, targets_{targets}, refused_(count) {
    if (busy) refused_[*busy] = true;
}

void Reflinks::begin(std::uint64_t block) {
    block_ = block;
    runs_.clear();
}

std::span<const EqualRun> Reflinks::within(std::uint32_t file, std::uint64_t begin, std::uint64_t end) const {
    const auto first = std::ranges::lower_bound(runs_, std::tuple{file, begin}, {}, target_place);
    auto last = first;
    while (last != runs_.end() && last->target_file == file && last->end() <= end) ++last;
    return {first, last};
}

bool Reflinks::share(const EqualRun& run) {
    if (!may_share(run.source_file)) return false;
    const Fd& source = sources_.stored(run.source_file);
    switch (targets_.share(run.target_file, run.target, {&source, run.source, run.length})) {
        case FileWriter::Shared::yes:
            return true;
        case FileWriter::Shared::not_here:
            works_ = false;
            break;
        case FileWriter::Shared::not_with_this:
            refused_[run.source_file] = true;
            break;
    }
    return false;
}

std::uint64_t block_size_of(const std::filesystem::path& folder) {
    struct statvfs status {};
    if (::statvfs(folder.c_str(), &status) != 0) return 0;
    // If blocks are smaller than pages, alignment to pages is sufficient.
    return std::max<std::uint64_t>(status.f_frsize, FileWriter::alignment);
}

}  // namespace tpx
