// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "lib/core/error.hpp"

#include <fmt/format.h>
#include <nlohmann/json_fwd.hpp>

#include <cstdio>
#include <string>
#include <string_view>
#include <utility>

namespace tpx::cli {

/// True unless the launcher (Open MPI, PMIx, Slurm) says that this process is another rank than 0. Asks no MPI.
bool is_first_rank();

/// True when `stream` is a terminal that shows colours and the user does not object (NO_COLOR, TERM=dumb).
bool wants_colour(std::FILE* stream);

/// `text` with control characters other than `allowed` and bytes that are not UTF-8 as \xNN, and with control,
/// bidirectional and invisible characters beyond ASCII as \u{NNNN}: names come out of other people's files, and a
/// terminal would obey them or show something else.
std::string printable(std::string_view text, std::string_view allowed = {});

/// Whether the user asked for JSON, so that errors are printed as JSON as well.
void set_json_errors(bool wanted);

/// Prints {"schema": "tpx.error/1", "error": {"exit_status": ..., "message": ...}} on standard output if JSON errors
/// are wanted. Write errors are ignored; the message is also on standard error.
void print_json_error(Exit exit, std::string_view message);

/// What a stretch of text means, for those who see colours.
enum class Paint { heading, good, bad, faint };

/// Where a command's words go: results to standard output, notes to standard error; from rank 0 only.
class Output {
public:
    Output(bool json, bool quiet);

    bool json() const { return json_; }
    bool quiet() const { return quiet_; }
    /// False on every rank but 0: nothing that is said here is seen.
    bool speaks() const { return speaks_; }

    /// Writes part of the result, for people, unless the user wants quiet; lines end where `format` says so. Throws
    /// Error if it cannot be written.
    template <class... Args>
    void result(fmt::format_string<Args...> format, Args&&... args) {
        if (!quiet_ || json_) write(fmt::format(format, std::forward<Args>(args)...));
    }

    /// Writes part of a list or table that other programs read, also with --quiet. Throws Error as result() does.
    template <class... Args>
    void data(fmt::format_string<Args...> format, Args&&... args) {
        write(fmt::format(format, std::forward<Args>(args)...));
    }

    /// Writes `members`, a JSON object, on one line, behind the key "schema", whose value is `schema`.
    void object(std::string_view schema, const nlohmann::ordered_json& members);

    /// Says "tpx: note: ..." on standard error, unless the user wants quiet, and adds it to the log of the job.
    template <class... Args>
    void note(fmt::format_string<Args...> format, Args&&... args) const {
        if (speaks_) note_text(fmt::format(format, std::forward<Args>(args)...));
    }

    /// `text` in the colour of `paint`, or as it is where colours are not wanted.
    std::string paint(Paint paint, std::string_view text) const;

    /// Makes sure that the result has been written. Throws Error: "standard output: No space left on device".
    void finish();

private:
    void write(std::string_view text);
    void note_text(const std::string& text) const;
    static void say(std::string_view kind, std::string_view text);

    bool json_, quiet_, speaks_, colour_;
};

}  // namespace tpx::cli
