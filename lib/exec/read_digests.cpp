// SPDX-License-Identifier: Apache-2.0
#include "lib/exec/read_digests.hpp"

#include "lib/core/crc.hpp"
#include "lib/exec/digests.hpp"

#include <algorithm>
#include <cstring>
#include <string>

namespace tpx {
namespace {

// Edges take about 40 bytes each; work that reads in large runs has few of them.
constexpr std::size_t edges_of_all = 262'144, least_edges = 256;

std::vector<SourceFile> paths_of(const Catalogue& files) {
    std::vector<SourceFile> paths;
    for (std::size_t f = 0; f < files.files.size(); ++f) paths.push_back({files.directory / files.files[f].path});
    return paths;
}

}  // namespace

ReadDigests::ReadDigests(const mpi::Comm& comm, const Catalogue& files)
    : comm_{comm},
      files_{files},
      most_edges_{std::max(edges_of_all / static_cast<std::size_t>(comm.size()), least_edges)},
      added_(files.files.size()) {
    for (std::uint32_t f = 0; f < files.files.size(); ++f) numbers_.emplace(files.directory / files.files[f].path, f);
}

std::optional<std::uint32_t> ReadDigests::number_of(const std::filesystem::path& path) const {
    const auto found = numbers_.find(path);
    return found == numbers_.end() ? std::nullopt : std::optional{found->second};
}

void ReadDigests::add(std::uint32_t file, std::uint64_t offset, std::span<const std::byte> bytes) {
    const std::uint64_t size = files_.files[file].size, end = offset + bytes.size();
    if (bytes.empty() || end > size) return;  // the file has grown; other checks detect this change
    const std::uint64_t crc = multiply(Crc64::of(bytes), Crc64::power(8 * (size - end)));
    const std::lock_guard lock{mutex_};
    Added& added = added_[file];
    // If there are too many edges, these bytes are not added, and complete() reads them again.
    if (edges_ >= most_edges_ && !added.edges.contains(offset) && !added.edges.contains(end)) return;
    const std::size_t before = added.edges.size();
    added.crc ^= crc;
    toggle(added.edges, offset);
    toggle(added.edges, end);
    edges_ += added.edges.size() - before;
}

void ReadDigests::toggle(std::set<std::uint64_t>& edges, std::uint64_t edge) {
    if (const auto [at, is_new] = edges.insert(edge); !is_new) edges.erase(at);
}

std::vector<std::set<std::uint64_t>> ReadDigests::edges_of_all_ranks() const {
    std::vector<std::uint64_t> mine;  // for each file, the number of its edges, then the edges
    for (const Added& added : added_) {
        mine.push_back(added.edges.size());
        mine.insert(mine.end(), added.edges.begin(), added.edges.end());
    }
    const std::string bytes{reinterpret_cast<const char*>(mine.data()), mine.size() * sizeof(std::uint64_t)};
    std::vector<std::set<std::uint64_t>> edges(added_.size());
    for (const std::string& of_rank : mpi::all_gather(comm_, bytes)) {
        std::vector<std::uint64_t> numbers(of_rank.size() / sizeof(std::uint64_t));
        std::memcpy(numbers.data(), of_rank.data(), of_rank.size());
        auto next = numbers.begin();
        for (auto& own : edges)
            for (std::uint64_t left = *next++; left > 0; --left) toggle(own, *next++);
    }
    return edges;
}

std::vector<Piece> ReadDigests::not_added() const {
    std::vector<Piece> pieces;
    const std::vector<std::set<std::uint64_t>> edges = edges_of_all_ranks();
    for (std::uint32_t f = 0; f < edges.size(); ++f) {
        std::set<std::uint64_t> own = edges[f];
        toggle(own, 0);  // now bytes that were not added are between the edges
        toggle(own, files_.files[f].size);
        for (auto edge = own.begin(); edge != own.end();) {
            const auto begin = static_cast<Index>(*edge++), end = static_cast<Index>(*edge++);
            pieces.push_back({.tensor = f,
                              .file = f,
                              .offset = static_cast<std::uint64_t>(begin),
                              .box = {{begin, end}},
                              .strides = {1}});
        }
    }
    return pieces;
}

std::vector<Digest> ReadDigests::complete(const ExecOptions& options) {
    const std::vector<Piece> rest = not_added();
    std::vector<std::uint64_t> crcs;
    for (const Added& added : added_) crcs.push_back(added.crc);
    mpi::all_xor(comm_, crcs);
    ExecOptions own = options;
    own.read_digests = nullptr;
    std::vector<Digest> result = digests(comm_, Side{files_.tensors, rest}, paths_of(files_), own);
    for (std::size_t f = 0; f < result.size(); ++f) result[f] = {result[f].crc ^ crcs[f], files_.files[f].size};
    return result;
}

}  // namespace tpx
