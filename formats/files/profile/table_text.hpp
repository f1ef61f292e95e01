// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <optional>
#include <string>
#include <string_view>

namespace tpx::formats {

struct Table;

/// Throws Error "FILE: not a WANTED but ...", which names the type of the file, if `bytes` are the start of a
/// spreadsheet, of another binary format of tables, or of a file that is compressed, but not with gzip.
void refuse_binary(std::string_view bytes, std::string_view file, std::string_view wanted);

/// The text of a table's file as UTF-8 with newlines: gzip is inflated, UTF-16 with a byte order mark converted, a mark
/// of UTF-8 removed. Throws Error that names `file` and what the file is for spreadsheets and other binary formats.
std::string table_text(std::string_view bytes, std::string_view file);

/// `cell` as parse_number() reads it if it is a number with `decimal` and, perhaps, separators between groups of three
/// digits: "1,234.5" with '.', "1.234,5" or "1 234,5" with ','.
std::optional<std::string> plain_number(std::string_view cell, char decimal);

/// Rewrites the numbers of `table` that have decimal commas or separators of thousands. Which of the two a comma is
/// follows from all cells; where they leave it open, it is the decimal sign if `separator` is a semicolon.
void normalize_numbers(Table& table, char separator);

}  // namespace tpx::formats
