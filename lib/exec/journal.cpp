// SPDX-License-Identifier: Apache-2.0
#include "lib/exec/journal.hpp"

#include "lib/core/crc.hpp"
#include "lib/core/error.hpp"
#include "lib/core/path.hpp"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <bit>
#include <cerrno>
#include <charconv>
#include <cstring>
#include <tuple>

namespace tpx {
namespace {

namespace fs = std::filesystem;

static_assert(std::endian::native == std::endian::little, "journals are little-endian");

// Three numbers and a checksum. The first two records are the header, the others are entries.
using Record = std::array<std::uint64_t, 4>;

constexpr std::uint64_t magic = 0x316c6e7270787074;  // "tpxprnl1"
constexpr std::chrono::seconds sync_interval{5};

// Inverted so that a record of zeros, which a crash can leave, is not intact; with the request so that records of other
// requests are not.
std::uint64_t checksum(const Record& record, std::uint64_t request) {
    return ~Crc64::of(std::as_bytes(std::span{record}.first(3))) ^ request;
}

Record sealed(std::uint64_t a, std::uint64_t b, std::uint64_t c, std::uint64_t request) {
    Record record{a, b, c, 0};
    record[3] = checksum(record, request);
    return record;
}

std::vector<Record> records_of(const fs::path& path) {
    const std::string bytes = read_file(path);
    std::vector<Record> records(bytes.size() / sizeof(Record));  // a torn record at the end is ignored
    std::memcpy(records.data(), bytes.data(), records.size() * sizeof(Record));
    return records;
}

std::optional<JournalHeader> header_of(const std::vector<Record>& records) {
    if (records.size() < 2 || records[0][0] != magic) return std::nullopt;
    const JournalHeader header{records[0][1], records[0][2], records[1][0], records[1][1]};
    for (const Record& record : {records[0], records[1]})
        if (record[3] != checksum(record, header.request)) return std::nullopt;
    return header;
}

// The attempt number in the name of a journal, or nothing.
std::optional<int> attempt_of(const std::string& name) {
    static constexpr std::string_view prefix = "journal.";
    int attempt = 0;
    if (!name.starts_with(prefix)) return std::nullopt;
    const char* begin = name.data() + prefix.size();
    const char* end = name.data() + name.size();
    const auto [after, error] = std::from_chars(begin, end, attempt);
    return error == std::errc{} && after != end && *after == '.' ? std::optional{attempt} : std::nullopt;
}

void drop_overlapping(std::vector<JournalEntry>& entries) {
    std::ranges::sort(entries, {}, [](const JournalEntry& e) { return std::tie(e.range.begin, e.range.end, e.crc); });
    std::uint64_t end = 0;
    std::erase_if(entries, [&](const JournalEntry& entry) {
        if (entry.range.begin < end) return true;
        end = entry.range.end;
        return false;
    });
}

}  // namespace

Journal::Journal(const JournalPlace& place, int rank, const JournalHeader& header)
    : path_{place.output / journal_folder / fmt::format("journal.{}.{}", place.attempt, rank)},
      request_{header.request},
      synced_{std::chrono::steady_clock::now()} {
    make_directories(path_.parent_path());
    file_ = open_file(path_, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW);
    const std::array<Record, 2> records{sealed(magic, header.request, header.total, header.request),
                                        sealed(header.most, header.preferred, 0, header.request)};
    write_at(file_, 0, std::as_bytes(std::span{records}), path_);
    end_ = sizeof records;
}

void Journal::add(const JournalEntry& entry) {
    const Record record = sealed(entry.range.begin, entry.range.end, entry.crc, request_);
    {
        const std::lock_guard lock{mutex_};
        write_at(file_, end_, std::as_bytes(std::span{record}), path_);
        end_ += sizeof record;
        const auto now = std::chrono::steady_clock::now();
        if (now - synced_ < sync_interval) return;
        synced_ = now;
    }
    // Outside the lock, so that no other thread waits. The result is ignored: if an entry is lost, its bytes are only
    // written again.
    ::fdatasync(file_.get());
}

std::uint64_t Journals::bytes() const {
    std::uint64_t bytes = 0;
    for (const JournalEntry& entry : entries) bytes += entry.range.end - entry.range.begin;
    return bytes;
}

int next_attempt(const fs::path& output) {
    int next = 1;
    for (const std::string& name : list_directory(output / journal_folder))
        if (const auto attempt = attempt_of(name)) next = std::max(next, *attempt + 1);
    return next;
}

std::optional<Journals> read_journals(const fs::path& output) {
    std::vector<std::pair<int, std::string>> names;
    for (const std::string& name : list_directory(output / journal_folder))
        if (const auto attempt = attempt_of(name)) names.emplace_back(*attempt, name);
    std::ranges::sort(names, std::greater{});
    std::optional<Journals> result;
    for (const auto& [attempt, name] : names) {
        const std::vector<Record> records = records_of(output / journal_folder / name);
        const auto header = header_of(records);
        if (!header) continue;
        if (!result) result = Journals{.header = *header, .entries = {}};
        if (header->request != result->header.request || header->total != result->header.total) continue;
        for (std::size_t k = 2; k < records.size(); ++k) {
            const auto& [begin, end, crc, check] = records[k];
            if (check == checksum(records[k], header->request) && begin < end && end <= header->total)
                result->entries.push_back({{begin, end}, crc});
        }
    }
    if (result) drop_overlapping(result->entries);
    return result;
}

}  // namespace tpx
