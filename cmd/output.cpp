// SPDX-License-Identifier: Apache-2.0
#include "cmd/output.hpp"

#include "lib/core/error.hpp"

#include <nlohmann/json.hpp>

#include <unistd.h>

#include <cerrno>
#include <cstdlib>
#include <cstring>

namespace tpx::cli {
namespace {

std::string_view variable(const char* name) {
    const char* value = std::getenv(name);
    return value ? value : "";
}

const char* code(Paint paint) {
    switch (paint) {
        case Paint::heading:
            return "1";
        case Paint::good:
            return "32";
        case Paint::bad:
            return "31";
        case Paint::faint:
            return "2";
    }
    return "0";
}

}  // namespace

bool is_first_rank() {
    // SLURM_PROCID is also set, to 0, in a batch script: it must not contradict a launcher that knows better.
    for (const char* name : {"OMPI_COMM_WORLD_RANK", "PMIX_RANK", "PMI_RANK", "SLURM_PROCID"})
        if (const std::string_view rank = variable(name); !rank.empty()) return rank == "0";
    return true;
}

bool wants_colour(std::FILE* stream) {
    return isatty(fileno(stream)) && variable("NO_COLOR").empty() && variable("TERM") != "dumb";
}

Output::Output(bool json, bool quiet)
    : json_{json}, quiet_{quiet}, speaks_{is_first_rank()}, colour_{!json && wants_colour(stdout)} {}

void Output::object(std::string_view schema, const nlohmann::ordered_json& members) {
    nlohmann::ordered_json all{{"schema", schema}};
    all.update(members);
    // Names in a checkpoint may be no UTF-8; the output always is.
    write(all.dump(-1, ' ', false, nlohmann::ordered_json::error_handler_t::replace) + "\n");
}

std::string Output::paint(Paint paint, std::string_view text) const {
    return colour_ ? fmt::format("\x1b[{}m{}\x1b[0m", code(paint), text) : std::string{text};
}

std::string printable(std::string_view text, std::string_view allowed) {
    std::string shown;
    shown.reserve(text.size());
    for (const char c : text) {
        const auto code = static_cast<unsigned char>(c);
        const bool control = code < 0x20 || code == 0x7f;
        if (control && allowed.find(c) == std::string_view::npos)
            shown += fmt::format("\\x{:02x}", code);
        else
            shown += c;
    }
    return shown;
}

void Output::write(std::string_view text) {
    const std::string shown = printable(text, "\n\t");
    if (!speaks_ || std::fwrite(shown.data(), 1, shown.size(), stdout) == shown.size()) return;
    throw failure("standard output: {}", std::strerror(errno));
}

void Output::say(std::string_view kind, std::string_view text) {
    // In one call, so that lines of several processes do not mix; if it fails, there is nobody left to tell.
    const std::string line = fmt::format("tpx: {}{}\n", kind, printable(text, ""));
    std::fwrite(line.data(), 1, line.size(), stderr);
}

void Output::finish() {
    errno = 0;
    if (std::fflush(stdout) != 0 || std::ferror(stdout))
        throw failure("standard output: {}", errno ? std::strerror(errno) : "not written");
}

}  // namespace tpx::cli
