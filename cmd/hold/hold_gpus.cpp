// SPDX-License-Identifier: Apache-2.0
#include "cmd/hold/hold_gpus.hpp"

#include "cmd/hold/direct_moves.hpp"
#include "cmd/hold/gpu_segment.hpp"
#include "cmd/hold/measured_links.hpp"
#include "cmd/hold/pipe.hpp"
#include "formats/encodings/held/document.hpp"
#include "formats/files/profile/hardware_file.hpp"
#include "lib/core/counted.hpp"
#include "lib/core/crc.hpp"
#include "lib/core/error.hpp"
#include "lib/core/host_name.hpp"
#include "lib/core/memory_file.hpp"
#include "lib/core/units.hpp"
#include "lib/exec/gpu_memory.hpp"

#include <fcntl.h>
#include <fmt/ranges.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <map>
#include <optional>
#include <span>
#include <sstream>
#include <utility>

namespace tpx::cli {
namespace {

/// What `body` returns in a process of its own, so that this one can still start others that use CUDA.
std::string in_child(std::string (*body)()) {
    Pipe pipe = make_pipe();
    const pid_t child = ::fork();
    if (child < 0) throw failure("fork: {}", std::strerror(errno));
    if (child == 0) {
        const std::string text = body();
        const bool whole = ::write(pipe.into.get(), text.data(), text.size()) == static_cast<ssize_t>(text.size());
        std::_Exit(whole ? 0 : 1);
    }
    pipe.into = Fd{};
    std::string text = read_all(pipe.from);
    if (const int status = wait_for_exit(child); status != 0)
        throw failure("CUDA: the process that looked for GPUs ended with status {}", status);
    return text;
}

/// A line with the links between GPUs, and a line "FREE TOTAL BUS NAME" for each GPU; or "!REASON".
std::string gpus_as_text() {
    std::string text;
    try {
        const std::vector<GpuInfo> gpu_infos = list_gpus();
        text = to_text(list_gpu_links()) + "\n";
        for (const GpuInfo& info : gpu_infos)
            text += fmt::format("{} {} {} {}\n", info.free, info.total, info.bus, info.name);
    } catch (const std::exception& error) {
        return fmt::format("!{}", error.what());
    }
    return text;
}

/// The GPUs and the links between them.
HoldPlace survey_gpus() {
    const std::string text = in_child(gpus_as_text);
    if (text.starts_with('!')) throw failure("{}", text.substr(1));
    HoldPlace found;
    std::istringstream lines{text};
    std::string links;
    std::getline(lines, links);
    found.links = parse_gpu_links(links);
    for (GpuInfo info; lines >> info.free >> info.total >> info.bus && std::getline(lines >> std::ws, info.name);)
        found.gpu_infos.push_back(info);
    return found;
}

/// The numbers in "0,0,1".
std::vector<int> given_gpus(const std::string& text) {
    std::vector<int> gpus;
    std::istringstream parts{text + ","};
    for (std::string part; std::getline(parts, part, ',');) {
        int gpu = -1;
        const auto parsed = std::from_chars(part.data(), part.data() + part.size(), gpu);
        if (parsed.ec != std::errc{} || parsed.ptr != part.data() + part.size() || gpu < 0)
            throw usage_error("--rank-gpus: '{}' is not a list of GPUs, such as 0,0,1,1", text);
        gpus.push_back(gpu);
    }
    return gpus;
}

/// The GPU of each rank: as given, or one for each.
std::vector<int> assign(const std::string& given, const std::vector<int>& ranks, std::size_t gpus) {
    std::vector<int> chosen;
    if (given.empty()) {
        if (ranks.size() > gpus)
            throw failure("{} but only {}; assign GPUs with --rank-gpus, such as 0,0,1,1",
                          counted(ranks.size(), "rank"), counted(gpus, "GPU"));
        for (std::size_t k = 0; k < ranks.size(); ++k) chosen.push_back(static_cast<int>(k));
        return chosen;
    }
    chosen = given_gpus(given);
    if (chosen.size() == 1) chosen.resize(ranks.size(), chosen[0]);
    if (chosen.size() != ranks.size())
        throw usage_error("--rank-gpus: {} for {}; give one, or one for each rank", counted(chosen.size(), "GPU"),
                          counted(ranks.size(), "rank"));
    for (const int gpu : chosen)
        if (static_cast<std::size_t>(gpu) >= gpus)
            throw failure("--rank-gpus: there is no GPU {}; CUDA finds {}", gpu, counted(gpus, "GPU"));
    return chosen;
}

/// Throws Error unless each GPU has room for its ranks.
void check_room_on_gpus(std::span<const GpuInfo> gpu_infos, std::span<const int> ranks, std::span<const int> gpus,
                        std::span<const std::uint64_t> bytes) {
    std::map<int, std::uint64_t> needed;
    std::map<int, std::vector<int>> ranks_of;
    for (std::size_t k = 0; k < ranks.size(); ++k) {
        needed[gpus[k]] += bytes[k];
        ranks_of[gpus[k]].push_back(ranks[k]);
    }
    for (const auto& [gpu, size] : needed) {
        if (static_cast<std::size_t>(gpu) >= gpu_infos.size())
            throw failure("{} {}: there is no GPU {}; CUDA finds {}", ranks_of[gpu].size() == 1 ? "rank" : "ranks",
                          fmt::join(ranks_of[gpu], ", "), gpu, counted(gpu_infos.size(), "GPU"));
        const GpuInfo& info = gpu_infos[static_cast<std::size_t>(gpu)];
        if (size > info.free)
            throw failure("GPU {} ({}): {} {} {} {}, but {} of {} are free", gpu, info.name,
                          ranks_of[gpu].size() == 1 ? "rank" : "ranks", fmt::join(ranks_of[gpu], ", "),
                          ranks_of[gpu].size() == 1 ? "needs" : "need", format_size(size), format_size(info.free),
                          format_size(info.total));
    }
}

HoldPlace on_gpus(const HoldOptions& options, const std::vector<int>& ranks, const std::vector<FileEntry>& files) {
    HoldPlace place = survey_gpus();
    if (!options.hardware.empty())
        rank_by_rate(place.links, place.gpu_infos, formats::read_hardware(options.hardware), host_name());
    place.gpus = assign(options.rank_gpus, ranks, place.gpu_infos.size());
    place.is_auto = options.device == "auto";
    std::vector<std::uint64_t> bytes;
    for (const int rank : ranks) bytes.push_back(segment_size(files, rank));
    check_room_on_gpus(place.gpu_infos, ranks, place.gpus, bytes);
    return place;
}

/// A part whose tensors are also on a GPU.
struct Uploaded {
    std::shared_ptr<GpuMemory> memory;
    Fd document;
    std::pair<std::string, std::string> place;
};

Uploaded upload(const HeldPart& part, int gpu, const std::string& bus, std::span<const DirectTensor> direct) {
    formats::held::Document document = formats::held::parse_document(document_text(part.document));
    auto memory = std::make_shared<GpuMemory>(gpu, document.size);
    GpuCopier copier{gpu};
    if (direct.empty())
        copier.upload(part.segment, *memory);
    else
        upload_around(part.segment, direct, *memory, copier);
    document.gpu = formats::held::GpuPlace{bus, hexadecimal(memory->handle())};
    const std::string text = write_document(document);
    Fd written = make_memory_file(fmt::format("tpx-rank-{:05}.json", part.rank), text.size());
    write_at(written, 0, std::as_bytes(std::span{text}), "document");
    return {std::move(memory), std::move(written), {bus, document.gpu->handle}};
}

template <class Body>
void for_each_rank(std::vector<HeldPart>& parts, Body&& body) {
    for (std::size_t k = 0; k < parts.size(); ++k)
        in_context([&] { return fmt::format("rank {}", parts[k].rank); }, [&] { body(k); });
}

std::vector<Uploaded> upload_all(std::vector<HeldPart>& parts, const HoldPlace& place, const DirectMoves* direct) {
    std::vector<Uploaded> uploaded;
    std::vector<GpuMemory*> memory;
    const auto tensors_of = [&](std::size_t k) {
        return direct != nullptr ? direct->tensors_of(parts[k].rank) : std::span<const DirectTensor>{};
    };
    for_each_rank(parts, [&](std::size_t k) {
        const int gpu = place.gpus[k];
        uploaded.push_back(upload(parts[k], gpu, place.gpu_infos[static_cast<std::size_t>(gpu)].bus, tensors_of(k)));
        memory.push_back(uploaded.back().memory.get());
    });
    if (direct == nullptr) return uploaded;
    direct->run(memory);
    for_each_rank(parts, [&](std::size_t k) { add_gpu_checksums(parts[k].segment, tensors_of(k), *memory[k]); });
    return uploaded;
}

}  // namespace

std::vector<GpuInfo> gpus_of_host() { return survey_gpus().gpu_infos; }

std::uint64_t segment_size(const std::vector<FileEntry>& files, int rank) {
    const auto found = std::ranges::find(files, std::filesystem::path{segment_name(rank)}, &FileEntry::path);
    if (found == files.end()) throw failure("rank {}: no segment is planned", rank);
    return found->size;
}

bool wants_gpus(const HoldOptions& options) { return options.device == "cuda" || options.device == "auto"; }

void check_rank_gpus(const HoldOptions& options) {
    if (options.rank_gpus.empty()) return;
    if (!wants_gpus(options)) throw usage_error("--rank-gpus: requires --device cuda");
    given_gpus(options.rank_gpus);
}

void check_gpu_memory(std::span<const int> ranks, std::span<const int> gpus, std::span<const std::uint64_t> bytes) {
    check_room_on_gpus(survey_gpus().gpu_infos, ranks, gpus, bytes);
}

HoldPlace choose_place(const HoldOptions& options, const std::vector<int>& ranks, const std::vector<FileEntry>& files) {
    const bool is_auto = options.device == "auto";
    if (!is_auto && options.device != "cuda") return {};
    try {
        return on_gpus(options, ranks, files);
    } catch (const Error& error) {
        if (!is_auto || error.exit() == Exit::usage) throw;
        return {.gpus = {}, .gpu_infos = {}, .is_auto = true, .reason = error.what()};
    }
}

std::string move_to_gpus(std::vector<HeldPart>& parts, const HoldPlace& place, const DirectMoves* direct) {
    if (place.gpus.empty()) return "";
    std::vector<Uploaded> uploaded;
    try {
        uploaded = upload_all(parts, place, direct);
    } catch (const Error& error) {
        if (direct == nullptr && !place.is_auto) throw;
        for (const int gpu : place.gpus) release_gpu(gpu);  // trainers need the memory; kernels may have left an error
        if (direct != nullptr) throw DirectFailure{error};
        return error.what();
    }
    for_each_rank(parts, [&](std::size_t k) {
        free_tensors(parts[k].segment, formats::held::parse_document(document_text(parts[k].document)));
        parts[k].host_document = std::exchange(parts[k].document, std::move(uploaded[k].document));
        parts[k].gpu = std::move(uploaded[k].memory);
        parts[k].gpu_place = std::move(uploaded[k].place);
    });
    return "";
}

}  // namespace tpx::cli
