// SPDX-License-Identifier: Apache-2.0
#include "cmd/output/output.hpp"

#include "cmd/output/job_log.hpp"
#include "cmd/output/own_job.hpp"
#include "lib/core/error.hpp"
#include "lib/core/utf8.hpp"

#include <nlohmann/json.hpp>

#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <utility>

namespace tpx::cli {
namespace {

bool is_own_job = false;

std::string_view variable(const char* name) {
    const char* value = std::getenv(name);
    return value ? value : "";
}

const char* code(TextStyle paint) {
    switch (paint) {
        case TextStyle::heading:
            return "1";
        case TextStyle::good:
            return "32";
        case TextStyle::bad:
            return "31";
        case TextStyle::faint:
            return "2";
    }
    return "0";
}

}  // namespace

void act_as_own_job() { is_own_job = true; }

bool is_first_rank() {
    if (is_own_job) return true;
    // SLURM_PROCID comes last: Slurm also sets it to 0 in a batch script, where another launcher may start the ranks.
    for (const char* name : {"OMPI_COMM_WORLD_RANK", "PMIX_RANK", "PMI_RANK", "SLURM_PROCID"})
        if (const std::string_view rank = variable(name); !rank.empty()) return rank == "0";
    return true;
}

bool wants_color(std::FILE* stream) {
    return isatty(fileno(stream)) && variable("NO_COLOR").empty() && variable("TERM") != "dumb";
}

Output::Output(bool json, bool quiet)
    : json_{json}, quiet_{quiet}, is_printing_{is_first_rank()}, color_{!json && wants_color(stdout)} {}

void Output::object(std::string_view schema, const nlohmann::ordered_json& members) {
    nlohmann::ordered_json all{{"schema", schema}};
    all.update(members);
    // Names in a checkpoint may be invalid UTF-8 or contain characters that terminals execute, so the output is ASCII.
    write(all.dump(-1, ' ', true, nlohmann::ordered_json::error_handler_t::replace) + "\n");
}

std::string Output::paint(TextStyle paint, std::string_view text) const {
    return color_ ? fmt::format("\x1b[{}m{}\x1b[0m", code(paint), text) : std::string{text};
}

namespace {

bool json_errors = false;

// Control characters, invisible characters, and characters that change the direction of text.
bool is_hidden(char32_t code) {
    constexpr std::array<std::pair<char32_t, char32_t>, 9> ranges{{{0, 0x1f},
                                                                   {0x7f, 0x9f},
                                                                   {0x61c, 0x61c},
                                                                   {0x200b, 0x200f},
                                                                   {0x2028, 0x202e},
                                                                   {0x2060, 0x206f},
                                                                   {0xfeff, 0xfeff},
                                                                   {0xfff9, 0xfffb},
                                                                   {0xe0000, 0xe0fff}}};
    return std::ranges::any_of(ranges, [&](const auto& range) { return code >= range.first && code <= range.second; });
}

}  // namespace

void set_json_errors(bool wanted) { json_errors = wanted; }

void print_json_error(Exit exit, std::string_view message) {
    if (!json_errors) return;
    const nlohmann::ordered_json error{{"schema", "tpx.error/1"},
                                       {"error", {{"exit_status", int(exit)}, {"message", message}}}};
    const std::string line = error.dump(-1, ' ', true, nlohmann::ordered_json::error_handler_t::replace) + "\n";
    std::fwrite(line.data(), 1, line.size(), stdout);
    std::fflush(stdout);
}

std::string printable(std::string_view text, std::string_view allowed) {
    std::string shown;
    shown.reserve(text.size());
    for (std::size_t at = 0; at < text.size();) {
        const std::size_t begin = at;
        const auto code = next_code_point(text, at);
        if (!code)
            shown += fmt::format("\\x{:02x}", static_cast<unsigned char>(text[at++]));
        else if (!is_hidden(*code) || (*code < 0x80 && allowed.find(text[begin]) != std::string_view::npos))
            shown += text.substr(begin, at - begin);
        else if (*code < 0x80)
            shown += fmt::format("\\x{:02x}", static_cast<std::uint32_t>(*code));
        else
            shown += fmt::format("\\u{{{:x}}}", static_cast<std::uint32_t>(*code));
    }
    return shown;
}

void Output::write(std::string_view text) {
    const std::string shown = printable(text, "\n\t");
    if (!is_printing_ || std::fwrite(shown.data(), 1, shown.size(), stdout) == shown.size()) return;
    throw failure("standard output: {}", std::strerror(errno));
}

void Output::note_text(const std::string& text) const {
    log_note(text);
    if (!quiet_) print_message("note: ", text);
}

void Output::print_message(std::string_view kind, std::string_view text) {
    // In one call, so that lines of several processes do not mix; if it fails, there is nowhere left to report it.
    const std::string line = fmt::format("tpx: {}{}\n", kind, printable(text, ""));
    std::fwrite(line.data(), 1, line.size(), stderr);
}

void Output::finish() {
    errno = 0;
    if (std::fflush(stdout) != 0 || std::ferror(stdout))
        throw failure("standard output: {}", errno ? std::strerror(errno) : "not written");
}

}  // namespace tpx::cli
