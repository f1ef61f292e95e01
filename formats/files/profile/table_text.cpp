// SPDX-License-Identifier: Apache-2.0
#include "formats/files/profile/table_text.hpp"

#include "formats/files/profile/gzip.hpp"
#include "formats/files/profile/table.hpp"
#include "lib/core/error.hpp"

#include <algorithm>
#include <array>
#include <utility>

namespace tpx::formats {
namespace {

constexpr std::size_t most_inflated = std::size_t{1} << 30;

void append_utf8(std::string& text, char32_t c) {
    const auto put = [&](char32_t byte) { text += static_cast<char>(byte); };
    if (c < 0x80) return put(c);
    if (c < 0x800) {
        put(0xC0 | c >> 6);
    } else {
        if (c < 0x10000) {
            put(0xE0 | c >> 12);
        } else {
            put(0xF0 | c >> 18);
            put(0x80 | (c >> 12 & 0x3F));
        }
        put(0x80 | (c >> 6 & 0x3F));
    }
    put(0x80 | (c & 0x3F));
}

// `bytes` have no byte order mark.
std::string from_utf16(std::string_view bytes, bool big_endian, std::string_view file) {
    if (bytes.size() % 2 != 0) throw failure("{}: truncated UTF-16 text", file);
    const auto unit = [&](std::size_t at) {
        const auto first = static_cast<unsigned char>(bytes[at]), second = static_cast<unsigned char>(bytes[at + 1]);
        return static_cast<char32_t>(big_endian ? first << 8 | second : second << 8 | first);
    };
    std::string text;
    for (std::size_t at = 0; at < bytes.size(); at += 2) {
        char32_t c = unit(at);
        if (c >= 0xD800 && c < 0xE000) {  // the first or second half of a code point
            const char32_t low = at + 4 <= bytes.size() ? unit(at + 2) : 0;
            if (c >= 0xDC00 || low < 0xDC00 || low >= 0xE000) throw failure("{}: invalid UTF-16 text", file);
            c = 0x10000 + ((c - 0xD800) << 10) + (low - 0xDC00);
            at += 2;
        }
        append_utf8(text, c);
    }
    return text;
}

bool is_digit(char c) { return c >= '0' && c <= '9'; }

// What separates thousands at the start of `text`, which is not `decimal`; its length, or 0.
std::size_t thousands_sign(std::string_view text, char decimal) {
    for (const std::string_view sign : {",", ".", "'", " ", "\xC2\xA0", "\xE2\x80\xAF", "\xE2\x80\x99"})
        if (text.starts_with(sign) && sign != std::string_view{&decimal, 1}) return sign.size();
    return 0;
}

// Takes digits from the front of `text`.
std::string take_digits(std::string_view& text) {
    const auto end = std::ranges::find_if_not(text, is_digit);
    std::string digits{text.begin(), end};
    text.remove_prefix(digits.size());
    return digits;
}

// Takes "234" of ",234,567" and so on from the front of `text`, all with the same sign; false where a group has not
// three digits.
bool take_groups(std::string_view& text, char decimal, std::string& digits) {
    const std::string sign{text.substr(0, thousands_sign(text, decimal))};
    if (sign.empty()) return true;
    if (digits.empty() || digits.size() > 3 || digits == "0") return false;
    while (text.starts_with(sign)) {
        text.remove_prefix(sign.size());
        const std::string group = take_digits(text);
        if (group.size() != 3) return false;
        digits += group;
    }
    return true;
}

bool is_exponent(std::string_view text) {
    if (text.empty()) return true;
    if (text[0] != 'e' && text[0] != 'E') return false;
    text.remove_prefix(1);
    if (text.starts_with('+') || text.starts_with('-')) text.remove_prefix(1);
    return !text.empty() && std::ranges::all_of(text, is_digit);
}

// Columns of words, in which a comma is not part of a number.
bool is_wordy(std::string_view column) {
    constexpr std::array<std::string_view, 6> words{"placement", "plan", "name", "label", "model", "command"};
    return std::ranges::any_of(words, [&](std::string_view word) { return column.find(word) != column.npos; });
}

template <class Visit>
void for_each_cell(Table& table, Visit&& visit) {
    for (std::size_t column = 0; column < table.columns.size(); ++column) {
        if (is_wordy(table.columns[column])) continue;
        for (Table::Row& row : table.rows) visit(row.cells[column]);
    }
}

}  // namespace

void refuse_binary(std::string_view bytes, std::string_view file, std::string_view wanted) {
    using namespace std::string_view_literals;
    static constexpr std::array<std::pair<std::string_view, std::string_view>, 10> kinds{{
        {"PK\x03\x04"sv, "a zip archive, such as an Excel (.xlsx) or OpenDocument (.ods) spreadsheet; save it as CSV"},
        {"\xD0\xCF\x11\xE0"sv, "an old Excel (.xls) spreadsheet; save it as CSV"},
        {"PAR1"sv, "a Parquet file; convert it to CSV"},
        {"ARROW1"sv, "an Arrow file; convert it to CSV"},
        {"\x89HDF"sv, "an HDF5 file; convert it to CSV"},
        {"SQLite format 3"sv, "an SQLite database; export the table as CSV"},
        {"\x28\xB5\x2F\xFD"sv, "compressed with zstd; decompress it first"},
        {"BZh"sv, "compressed with bzip2; decompress it first"},
        {"\xFD\x37zXZ"sv, "compressed with xz; decompress it first"},
        {"\xFF\xFE\0\0"sv, "UTF-32 text; save it as UTF-8"},
    }};
    for (const auto& [start, what] : kinds)
        if (bytes.starts_with(start)) throw failure("{}: not a {} but {}", file, wanted, what);
}

std::string table_text(std::string_view bytes, std::string_view file) {
    if (is_gzip(bytes)) return table_text(inflate_gzip(bytes, file, most_inflated), file);
    refuse_binary(bytes, file, "table");
    std::string text;
    if (bytes.starts_with("\xFF\xFE") || bytes.starts_with("\xFE\xFF"))
        text = from_utf16(bytes.substr(2), bytes[0] == '\xFE', file);
    else if (const std::size_t zero = bytes.substr(0, 2).find('\0'); zero != bytes.npos && bytes.size() % 2 == 0)
        text = from_utf16(bytes, zero == 0, file);  // no mark, but the first character is ASCII
    else
        text = bytes.substr(bytes.starts_with("\xEF\xBB\xBF") ? 3 : 0);
    if (text.find('\0') != text.npos) throw failure("{}: not text: it contains NUL bytes", file);
    if (text.find('\n') == text.npos) std::ranges::replace(text, '\r', '\n');  // line ends of old Macs
    return text;
}

std::optional<std::string> plain_number(std::string_view cell, char decimal) {
    std::string plain;
    if (cell.starts_with('-') || cell.starts_with('+')) {
        if (cell[0] == '-') plain = "-";
        cell.remove_prefix(1);
    }
    std::string digits = take_digits(cell);
    if (!take_groups(cell, decimal, digits)) return std::nullopt;
    std::string fraction;
    if (cell.starts_with(decimal)) {
        cell.remove_prefix(1);
        fraction = take_digits(cell);
    }
    if ((digits.empty() && fraction.empty()) || !is_exponent(cell)) return std::nullopt;
    plain += digits.empty() ? "0" : digits;
    if (!fraction.empty()) plain += "." + fraction;
    return plain.append(cell);
}

void normalize_numbers(Table& table, char separator) {
    bool has_signs = false, is_comma = false, is_point = false;
    for_each_cell(table, [&](const std::string& cell) {
        if (cell.find_first_of(",'\xA0\x80\x99 ") == cell.npos && cell.find('.') == cell.npos) return;
        const bool point = plain_number(cell, '.').has_value(), comma = plain_number(cell, ',').has_value();
        has_signs = has_signs || ((point || comma) && cell.find_first_of(",' \xA0\x80") != cell.npos);
        is_point = is_point || (point && !comma);
        is_comma = is_comma || (comma && !point);
    });
    if (!has_signs) return;
    const char decimal = is_comma || (!is_point && separator == ';') ? ',' : '.';
    for_each_cell(table, [&](std::string& cell) {
        if (auto plain = plain_number(cell, decimal)) cell = std::move(*plain);
    });
}

}  // namespace tpx::formats
