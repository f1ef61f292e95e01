// SPDX-License-Identifier: Apache-2.0
#include "cmd/hold/gpu_source.hpp"

#include "cmd/jobs/keeper_client.hpp"
#include "formats/encodings/held/document.hpp"
#include "lib/core/error.hpp"
#include "lib/core/memory_file.hpp"
#include "lib/core/path.hpp"
#include "lib/exec/local_socket.hpp"

#include <fcntl.h>
#include <signal.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <charconv>
#include <cstdlib>
#include <cstring>
#include <string_view>

namespace tpx::cli {
namespace {

namespace fs = std::filesystem;
namespace held = formats::held;

/// What the child is asked for: the bytes of a segment from `begin` up to `end`, in its scratch file.
struct GpuRead {
    std::uint64_t segment;
    std::uint64_t begin;
    std::uint64_t end;
};

GpuSegment segment_of(const held::Manifest::Part& part, const fs::path& folder) {
    const held::Document document = held::parse_document(read_file(folder / part.document));
    GpuSegment segment{
        document.rank, part.segment, part.gpu->bus, handle_of(part.gpu->handle), document.size, document.size, 0};
    for (const held::HeldTensor& tensor : document.tensors) {
        segment.begin = std::min(segment.begin, tensor.offset);
        segment.end = std::max(segment.end, tensor.offset + payload(tensor));
    }
    return segment;
}

bool is_same_address(std::string_view one, std::string_view other) {
    const auto lower = [](char c) { return c >= 'A' && c <= 'F' ? static_cast<char>(c - 'A' + 'a') : c; };
    return std::ranges::equal(one, other, {}, lower, lower);
}

/// The device and inode of a file, which no other file has while it is open somewhere.
std::pair<std::uint64_t, std::uint64_t> number_of(const fs::path& path) {
    struct stat status {};
    if (::stat(path.c_str(), &status) != 0) throw system_failure(path, errno);
    return {status.st_dev, status.st_ino};
}

/// Frees the memory of whole pages around bytes of a file.
void free_pages(const Fd& file, std::uint64_t begin, std::uint64_t end) {
    constexpr std::uint64_t page = 4096;
    begin = begin / page * page;
    end = (end + page - 1) / page * page;
    ::fallocate(file.get(), FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, static_cast<off_t>(begin),
                static_cast<off_t>(end - begin));
}

}  // namespace

GpuHandle handle_of(const std::string& digits) {
    GpuHandle handle{};
    for (std::size_t k = 0; k < handle.size(); ++k) {
        unsigned byte = 0;
        const char* const at = digits.data() + 2 * k;
        if (digits.size() != 2 * handle.size() || std::from_chars(at, at + 2, byte, 16).ptr != at + 2)
            throw failure("the handle of a GPU's memory is malformed");
        handle[k] = static_cast<std::byte>(byte);
    }
    return handle;
}

std::string hexadecimal(const GpuHandle& handle) {
    std::string text;
    for (const std::byte byte : handle) text += fmt::format("{:02x}", std::to_integer<unsigned>(byte));
    return text;
}

int gpu_at(const std::string& bus, std::span<const GpuInfo> gpu_infos) {
    const auto found =
        std::ranges::find_if(gpu_infos, [&](const GpuInfo& info) { return is_same_address(info.bus, bus); });
    if (found == gpu_infos.end()) throw failure("CUDA finds no GPU at {}", bus);
    return static_cast<int>(found - gpu_infos.begin());
}

GpuSource::GpuSource(const std::string& name) : name_{name.substr(held_prefix.size())} {
    manifest_ = open_held_in_place(name_);
    try {
        manifest_number_ = number_of(manifest_);
        const fs::path folder = manifest_.parent_path();
        for (const held::Manifest::Part& part : held::parse_manifest(read_file(manifest_)).parts) {
            if (!part.gpu) continue;
            segments_.push_back(segment_of(part, folder));
            numbers_.push_back(number_of(folder / part.segment));
        }
        if (!segments_.empty()) start_reader();
    } catch (...) {
        stop_reader();
        end_held_reading(name_);
        throw;
    }
}

GpuSource::~GpuSource() { stop_reader(); }

void GpuSource::start_reader() {
    for (const GpuSegment& segment : segments_) scratch_.push_back(make_memory_file("tpx-gpu-read", segment.size));
    std::array<int, 2> ends{};
    if (::socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends.data()) != 0)
        throw failure("socketpair: {}", std::strerror(errno));
    requests_ = Fd{ends[0]};
    Fd other{ends[1]};
    reader_ = ::fork();
    if (reader_ < 0) throw failure("fork: {}", std::strerror(errno));
    if (reader_ == 0) {
        requests_ = Fd{};
        serve(other);
    }
    other = Fd{};
    const auto greeting = receive_message(requests_);
    if (!greeting) throw failure("CUDA: the process that reads from GPUs ended unexpectedly");
    if (!greeting->text.empty() && greeting->text != "+") throw failure("{}", greeting->text);
    hook_.emplace(
        [this](const Fd& file, std::uint64_t offset, std::span<std::byte> into) { return read(file, offset, into); });
}

/// The child: opens the memory of all segments, and copies from it until its parent is gone.
void GpuSource::serve(const Fd& requests) const {
    for (const int signal : {SIGINT, SIGTERM, SIGUSR1, SIGHUP}) ::signal(signal, SIG_IGN);  // the parent ends it
    try {
        std::vector<std::unique_ptr<GpuMemory>> memory;
        const std::vector<GpuInfo> gpu_infos = list_gpus();
        for (const GpuSegment& segment : segments_)
            memory.push_back(std::make_unique<GpuMemory>(gpu_at(segment.bus, gpu_infos), segment.handle, segment.size));
        send_message(requests, "+");
        std::vector<std::unique_ptr<GpuCopier>> copiers(gpu_infos.size());
        for (GpuRead wanted{}; ::recv(requests.get(), &wanted, sizeof wanted, 0) == sizeof wanted;) {
            const GpuMemory& from = *memory[wanted.segment];
            auto& copier = copiers[static_cast<std::size_t>(from.gpu())];
            if (!copier) copier = std::make_unique<GpuCopier>(from.gpu());
            copier->download(from, wanted.begin, wanted.end, scratch_[wanted.segment]);
            send_message(requests, "+");
        }
        copiers.clear();
        memory.clear();
    } catch (const std::exception& error) {
        try {
            send_message(requests, error.what());
        } catch (const Error&) {  // the parent is gone
        }
        std::_Exit(1);
    }
    std::_Exit(0);
}

bool GpuSource::read(const Fd& file, std::uint64_t offset, std::span<std::byte> into) {
    struct stat status {};
    if (into.empty() || ::fstat(file.get(), &status) != 0) return false;
    const auto found = std::ranges::find(numbers_, FileNumber{status.st_dev, status.st_ino});
    if (found == numbers_.end()) return false;
    const auto number = static_cast<std::size_t>(found - numbers_.begin());
    const GpuSegment& segment = segments_[number];
    const std::uint64_t end = offset + into.size();
    if (end <= segment.begin || offset >= segment.end || end > segment.size) return false;
    const std::scoped_lock lock{mutex_};
    const GpuRead wanted{number, offset, end};
    const bool is_sent = ::send(requests_.get(), &wanted, sizeof wanted, MSG_NOSIGNAL) == sizeof wanted;
    const auto answer = is_sent ? receive_message(requests_) : std::nullopt;
    has_failed_ = has_failed_ || !answer || answer->text != "+";
    if (!answer) throw failure("CUDA: the process that reads from GPUs ended unexpectedly");
    if (answer->text != "+") throw failure("{}", answer->text);
    read_at(scratch_[number], offset, into, "memory of a GPU");
    free_pages(scratch_[number], offset, end);
    return true;
}

void GpuSource::stop_reader() {
    hook_.reset();
    requests_ = Fd{};  // at which the child ends
    scratch_.clear();
    if (reader_ > 0)
        while (::waitpid(reader_, nullptr, 0) < 0 && errno == EINTR) {
        }
    reader_ = 0;
}

void GpuSource::check_still_held() const {
    // However a keeper ends, its manifest is gone before the memory of its GPUs is freed.
    try {
        if (number_of(manifest_) == manifest_number_) return;
    } catch (const Error&) {  // the file is gone
    }
    throw failure("{}{}: the keeper ended while its state was copied", held_prefix, name_);
}

std::unique_ptr<GpuSource> open_gpu_source(const std::string& checkpoint, std::string& reason) {
    if (!is_held(checkpoint)) return nullptr;
    { const KeeperClient exists{checkpoint.substr(held_prefix.size())}; }  // if not, no other memory helps
    try {
        auto source = std::make_unique<GpuSource>(checkpoint);
        if (!source->segments().empty()) return source;
    } catch (const Error& error) {
        reason = error.what();
    }
    end_held_reading(checkpoint.substr(held_prefix.size()));
    return nullptr;
}

}  // namespace tpx::cli
