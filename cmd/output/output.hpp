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

/// True unless the launcher (Open MPI, PMIx, Slurm) has started this process as a rank other than 0. Does not call MPI.
bool is_first_rank();

/// True if `stream` is a terminal, NO_COLOR is not set, and TERM is not dumb.
bool wants_color(std::FILE* stream);

/// `text` with control characters other than `allowed` and bytes that are not UTF-8 as \xNN, and with control,
/// bidirectional and invisible characters beyond ASCII as \u{NNNN}. Names come from untrusted files, and terminals
/// would execute such characters or show something else.
std::string printable(std::string_view text, std::string_view allowed = {});

/// Sets whether errors are also printed as JSON, because the user asked for JSON.
void set_json_errors(bool wanted);

/// Prints {"schema": "tpx.error/1", "error": {"exit_status": ..., "message": ...}} on standard output if JSON errors
/// are wanted. Write errors are ignored; the message is also on standard error.
void print_json_error(Exit exit, std::string_view message);

/// The meaning of a part of the text, which is shown as a color.
enum class TextStyle { heading, good, bad, faint };

/// The output of a command: results on standard output, notes on standard error; from rank 0 only.
class Output {
public:
    Output(bool json, bool quiet);

    bool json() const { return json_; }
    bool quiet() const { return quiet_; }
    /// Whether this rank prints its output; only rank 0 does.
    bool is_printing() const { return is_printing_; }

    /// Writes part of the result for people, unless --quiet is given; does not add a newline. Throws Error if it cannot
    /// be written.
    template <class... Args>
    void result(fmt::format_string<Args...> format, Args&&... args) {
        if (!quiet_ || json_) write(fmt::format(format, std::forward<Args>(args)...));
    }

    /// Writes part of a list or table that other programs read, even with --quiet. Throws Error as result() does.
    template <class... Args>
    void data(fmt::format_string<Args...> format, Args&&... args) {
        write(fmt::format(format, std::forward<Args>(args)...));
    }

    /// Writes `members`, a JSON object, on one line, after the key "schema", whose value is `schema`.
    void object(std::string_view schema, const nlohmann::ordered_json& members);

    /// Prints "tpx: note: ..." on standard error, unless --quiet is given, and adds it to the log of the job.
    template <class... Args>
    void note(fmt::format_string<Args...> format, Args&&... args) const {
        if (is_printing_) note_text(fmt::format(format, std::forward<Args>(args)...));
    }

    /// `text` in the color of `paint`, or unchanged if colors are off.
    std::string paint(TextStyle paint, std::string_view text) const;

    /// Makes sure that the result has been written. Throws Error, such as "standard output: No space left on device".
    void finish();

private:
    void write(std::string_view text);
    void note_text(const std::string& text) const;
    static void print_message(std::string_view kind, std::string_view text);

    bool json_, quiet_, is_printing_, color_;
};

}  // namespace tpx::cli
