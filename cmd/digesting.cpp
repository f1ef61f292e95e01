// SPDX-License-Identifier: Apache-2.0
#include "cmd/digesting.hpp"

#include "formats/archive_check.hpp"
#include "lib/core/coverage.hpp"
#include "lib/core/error.hpp"
#include "lib/exec/digest_run.hpp"

#include <algorithm>
#include <map>
#include <numeric>

namespace tpx::cli {
namespace {

/// A digest over the names, dtypes, shapes and digests of all tensors but second copies, in the order of their names.
std::string state_digest(const Digested& digested) {
    std::vector<std::size_t> order(digested.digests.size());
    std::iota(order.begin(), order.end(), std::size_t{0});
    std::erase_if(order, [&](std::size_t t) {
        return digested.canonical.roles[t] == "extra" || digested.canonical.roles[t] == "copy";
    });
    std::ranges::sort(order, {},
                      [&](std::size_t t) -> const std::string& { return digested.canonical.tensors[t].name; });
    std::string text;
    for (std::size_t t : order) {
        const Tensor& tensor = digested.canonical.tensors[t];
        text += fmt::format("{} {} {} {}\n", tensor.name, name(tensor.dtype), to_string(tensor.shape),
                            to_string(digested.digests[t]));
    }
    Digest digest;
    const Index length = static_cast<Index>(text.size());
    add(digest, Shape{length}, 1, Box{{0, length}}, std::as_bytes(std::span{text}).data());
    return to_string(digest);
}

}  // namespace

Digested digest_all(const mpi::Comm& comm, formats::Source& source, const ExecOptions& options) {
    Digested digested;
    const Catalogue& catalogue = source.checkpoint.catalogue;
    mpi::all_or_none(comm, [&] {
        in_context([&] { return catalogue.directory.string(); }, [&] { check_whole(catalogue); });
        digested.canonical = canonical(source);
    });
    digested.digests = digests(comm, digested.canonical.side(), formats::paths(catalogue), options);
    digested.state = state_digest(digested);
    return digested;
}

std::vector<formats::RecordedDigests::FileDigest> digest_files(const mpi::Comm& comm, const Catalogue& catalogue,
                                                               const ExecOptions& options) {
    Catalogue files;
    mpi::all_or_none(comm, [&] { files = formats::files_as_tensors(catalogue); });
    const std::vector<Digest> found = digests(comm, Side{files.tensors, files.pieces}, formats::paths(files), options);
    std::vector<formats::RecordedDigests::FileDigest> named;
    for (std::size_t f = 0; f < found.size(); ++f)
        named.push_back({files.files[f].path.string(), files.files[f].size, to_string(found[f])});
    return named;
}

std::vector<std::string> damaged_archives(const mpi::Comm& comm, const formats::Source& source) {
    formats::ArchiveCheck mine;
    mpi::all_or_none(comm, [&] { mine = formats::check_archives(source.checkpoint, comm.rank(), comm.size()); });
    std::vector<std::uint64_t> counts{mine.archives, mine.damaged.size()};
    mpi::all_sum(comm, counts);
    if (counts[0] > 1 && counts[0] == counts[1]) return {};
    std::string lines = fmt::format("{}", fmt::join(mine.damaged, "\n"));
    std::string all;
    for (const std::string& text : mpi::gather(comm, lines)) all += text.empty() ? "" : text + "\n";
    mpi::broadcast(comm, all);
    std::vector<std::string> damaged;
    for (std::size_t begin = 0; begin < all.size(); begin = all.find('\n', begin) + 1)
        damaged.push_back(all.substr(begin, all.find('\n', begin) - begin));
    return damaged;
}

std::vector<std::string> compare_with_record(const mpi::Comm& comm, const formats::Source& source, const Digested& now,
                                             const formats::RecordedDigests& record, const ExecOptions& options) {
    std::vector<std::string> differences;
    std::map<std::string, std::size_t> present;
    for (std::size_t t = 0; t < now.digests.size(); ++t) present[now.canonical.tensors[t].name] = t;
    for (const auto& tensor : record.tensors) {
        const auto found = present.find(tensor.name);
        if (found == present.end())
            differences.push_back(fmt::format("tensor '{}': recorded, but not in the checkpoint", tensor.stored));
        else if (to_string(now.digests[found->second]) != tensor.digest ||
                 name(now.canonical.tensors[found->second].dtype) != tensor.dtype)
            differences.push_back(fmt::format("tensor '{}' ({}): digest {} instead of {}", tensor.stored, tensor.name,
                                              to_string(now.digests[found->second]), tensor.digest));
        if (found != present.end()) present.erase(found);
    }
    for (const auto& [name, t] : present)
        differences.push_back(
            fmt::format("tensor '{}': in the checkpoint, but not recorded", now.canonical.stored_names[t]));
    std::map<std::string, std::string> files;
    for (const auto& file : digest_files(comm, source.checkpoint.catalogue, options)) files[file.path] = file.digest;
    for (const auto& file : record.files) {
        const auto found = files.find(file.path);
        if (found == files.end())
            differences.push_back(fmt::format("file '{}': recorded, but missing", file.path));
        else if (found->second != file.digest)
            differences.push_back(
                fmt::format("file '{}': digest {} instead of {}", file.path, found->second, file.digest));
    }
    return differences;
}

}  // namespace tpx::cli
