// SPDX-License-Identifier: Apache-2.0
#include "lib/exec/agreement.hpp"

#include "lib/core/host_name.hpp"

#include "lib/core/fingerprint.hpp"
#include "lib/core/path.hpp"

#include <sys/stat.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <optional>

namespace tpx {
namespace {

std::uint64_t digest_of(std::span<const Claim> claims, bool same_host) {
    Fingerprint print;
    for (const Claim& claim : claims) {
        print.add(claim.what);
        print.add(claim.value);
        if (same_host) print.add(claim.local);
    }
    return print.value();
}

void append(std::string& bytes, const std::string& text) {
    bytes += std::to_string(text.size());
    bytes += ' ';
    bytes += text;
}

std::string pack(const std::vector<Claim>& claims) {
    std::string bytes;
    for (const Claim& claim : claims) {
        for (const std::string* text : {&claim.what, &claim.value, &claim.local}) append(bytes, *text);
    }
    return bytes;
}

std::vector<Claim> unpack(const std::string& bytes) {
    std::vector<Claim> claims;
    std::size_t at = 0;
    const auto next = [&] {
        const std::size_t blank = bytes.find(' ', at);
        const std::size_t size = std::stoull(bytes.substr(at, blank - at));
        at = blank + 1 + size;
        return bytes.substr(blank + 1, size);
    };
    while (at < bytes.size()) {
        Claim claim;
        for (std::string* text : {&claim.what, &claim.value, &claim.local}) *text = next();
        claims.push_back(std::move(claim));
    }
    return claims;
}

/// The first difference between `mine` and rank 0's claims, `first`; empty if there is none.
std::string difference(const std::vector<Claim>& mine, const std::vector<Claim>& first, bool same_host) {
    const auto lacks = [](const std::vector<Claim>& claims, const std::string& what) {
        return std::ranges::find(claims, what, &Claim::what) == claims.end();
    };
    for (std::size_t k = 0; k < std::max(mine.size(), first.size()); ++k) {
        if (k < first.size() && k < mine.size() && mine[k].what == first[k].what) {
            const std::string inode =
                same_host && mine[k].local != first[k].local ? fmt::format(", {}", mine[k].local) : "";
            if (mine[k].value == first[k].value && inode.empty()) continue;
            return fmt::format("{}: {}{}; on rank 0: {}{}", mine[k].what, mine[k].value, inode, first[k].value,
                               inode.empty() ? "" : fmt::format(", {}", first[k].local));
        }
        if (k < first.size() && lacks(mine, first[k].what)) return fmt::format("{}: only on rank 0", first[k].what);
        if (k < mine.size() && lacks(first, mine[k].what)) return fmt::format("{}: not on rank 0", mine[k].what);
    }
    return {};
}

/// "rank 3", "ranks 1, 2 and 5".
std::string ranks_text(std::span<const int> ranks) {
    std::string text = ranks.size() == 1 ? "rank " : "ranks ";
    for (std::size_t k = 0; k < ranks.size(); ++k)
        text += fmt::format("{}{}", k == 0 ? "" : k + 1 == ranks.size() ? " and " : ", ", ranks[k]);
    return text;
}

/// "ranks 1 and 2 on host b and rank 5 on host c" or, if `hosts` is empty, "ranks 1, 2 and 5"; if there are more than
/// five ranks, the first five "and 37 more".
std::string ranks_text(const std::vector<int>& ranks, const std::vector<std::string>& hosts) {
    constexpr std::size_t most = 5;
    const std::span shown = std::span{ranks}.first(std::min(ranks.size(), most));
    const auto host_of = [&](int rank) { return hosts.empty() ? "" : hosts[static_cast<std::size_t>(rank)]; };
    std::string text;
    for (std::size_t begin = 0, end = 0; begin < shown.size(); begin = end) {
        const std::string host = host_of(shown[begin]);
        while (end < shown.size() && host_of(shown[end]) == host) ++end;
        if (begin > 0) text += end == ranks.size() ? " and " : ", ";
        text += ranks_text(shown.subspan(begin, end - begin));
        if (!host.empty()) text += " on host " + host;
    }
    if (ranks.size() > most) text += fmt::format(" and {} more", ranks.size() - most);
    return text;
}

/// Throws the Error for ranks whose claims differ from those of rank 0. Names hosts if one of these ranks is on a
/// different host than rank 0. Collective.
[[noreturn]] void report(const mpi::Comm& comm, const std::vector<Claim>& claims, bool same_host) {
    std::string packed = comm.rank() == 0 ? pack(claims) : "";
    mpi::broadcast(comm, packed);
    const std::string mine = comm.rank() == 0 ? "" : difference(claims, unpack(packed), same_host);
    const std::vector<std::string> all = mpi::gather(comm, mine);
    std::vector<std::string> hosts = mpi::gather(comm, host_name());
    std::string message;
    if (comm.rank() == 0) {
        std::vector<int> ranks;
        for (std::size_t rank = 0; rank < all.size(); ++rank)
            if (!all[rank].empty()) ranks.push_back(static_cast<int>(rank));
        const std::string& cause = ranks.empty() ? std::string{"the order of what they read"} : all[ranks[0]];
        if (std::ranges::all_of(ranks, [&](int rank) { return hosts[rank] == hosts[0]; })) hosts.clear();
        message = fmt::format(
            "{} and {} disagree: {}; start all processes with the same arguments in the same directory on shared "
            "storage, and do not modify the checkpoint meanwhile",
            ranks.empty() ? "ranks" : ranks_text(ranks, hosts), ranks_text({0}, hosts), cause);
    }
    mpi::broadcast(comm, message);
    throw mpi::AgreedError{failure("{}", message)};
}

}  // namespace

std::uint64_t digest_of(std::span<const Claim> claims) { return digest_of(claims, false); }

void require_same(const mpi::Comm& comm, const std::vector<Claim>& claims) {
    if (comm.size() == 1) return;
    std::string host = comm.rank() == 0 ? host_name() : "";
    mpi::broadcast(comm, host);
    const bool same_host = host == host_name();
    std::string digests =
        comm.rank() == 0 ? fmt::format("{:016x}{:016x}", digest_of(claims, false), digest_of(claims, true)) : "";
    mpi::broadcast(comm, digests);
    const std::string mine = fmt::format("{:016x}", digest_of(claims, same_host));
    std::array<std::uint64_t, 1> differs{mine != digests.substr(same_host ? 16 : 0, 16) ? 1u : 0u};
    mpi::all_max(comm, differs);
    if (differs[0] != 0) report(comm, claims, same_host);
}

namespace {

/// The identity of the file at `path`, with links followed; nothing if the file is absent.
std::optional<FileIdentity> identity_of(const std::filesystem::path& path) {
    struct stat status {};
    int result = 0;
    do {
        result = ::stat(path.empty() ? "." : path.c_str(), &status);
    } while (result != 0 && errno == EINTR);
    if (result == 0) return FileIdentity{status};
    if (errno != ENOENT && errno != ENOTDIR) throw system_failure(path, errno);
    return std::nullopt;
}

}  // namespace

std::vector<Claim> claims_of(const mpi::Comm& comm, const ReadRecord& record, const std::filesystem::path& directory) {
    std::vector<Claim> claims;
    std::optional<FileIdentity> folder;
    mpi::all_or_none(comm, [&] { folder = identity_of(directory); });
    const std::string mine = folder ? fmt::format("{} {}", folder->inode, to_string(*folder)) : "";
    std::string first = mine;
    mpi::broadcast(comm, first);
    mpi::all_or_none(comm, [&] {
        int k = 0;
        for (const auto& [path, recorded] : record.files()) {
            FileIdentity file = recorded;
            const bool looks = mine != first || k++ % comm.size() == comm.rank();
            if (looks && comm.rank() != 0 && !path.native().starts_with("/proc/")) {
                const auto found = identity_of(path);
                if (!found) continue;
                file = *found;
            }
            const bool below = std::ranges::mismatch(directory, path).in1 == directory.end();
            claims.push_back({below ? path.lexically_relative(directory).string() : path.string(), to_string(file),
                              fmt::format("inode {}", file.inode)});
        }
    });
    return claims;
}

void check_unchanged(const mpi::Comm& comm, const ReadRecord& record) {
    mpi::all_or_none(comm, [&] {
        int k = 0;
        for (const auto& [path, file] : record.files())
            if (k++ % comm.size() == comm.rank()) record.check(path);
    });
}

}  // namespace tpx
