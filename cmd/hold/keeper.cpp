// SPDX-License-Identifier: Apache-2.0
#include "cmd/hold/keeper.hpp"

#include "cmd/hold/held_snapshot.hpp"
#include "formats/encodings/held/document.hpp"
#include "lib/core/error.hpp"
#include "lib/core/memory_file.hpp"
#include "lib/exec/gpu_memory.hpp"
#include "lib/exec/local_socket.hpp"
#include "lib/exec/open_files.hpp"

#include <nlohmann/json.hpp>

#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <sys/signalfd.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>

namespace tpx::cli {
namespace {

using Json = nlohmann::ordered_json;

constexpr std::size_t most_clients = 512;
constexpr std::uint64_t longest_document = std::uint64_t{1} << 30;

std::uint64_t size_of(const Fd& fd) {
    struct stat status {};
    if (::fstat(fd.get(), &status) != 0 || !S_ISREG(status.st_mode)) throw failure("not a file");
    return static_cast<std::uint64_t>(status.st_size);
}

Fd stop_signals() {
    sigset_t set;
    ::sigemptyset(&set);
    for (const int signal : {SIGTERM, SIGINT, SIGHUP}) ::sigaddset(&set, signal);
    ::sigprocmask(SIG_BLOCK, &set, nullptr);
    return Fd{::signalfd(-1, &set, SFD_CLOEXEC | SFD_NONBLOCK)};
}

/// The part, whose tensors are in its segment or where the document says.
std::pair<HeldPart, formats::held::Document> read_part(Fd document, Fd segment) {
    if (!is_memory_file(document) || !is_memory_file(segment))
        throw failure(
            "the state is not in memory files of fixed size (memfd_create with F_SEAL_SHRINK and F_SEAL_GROW)");
    const std::uint64_t length = size_of(document), size = size_of(segment);
    if (length > longest_document)
        throw failure("a document of {} bytes, at most {} are allowed", length, longest_document);
    std::string text(length, '\0');
    read_at(document, 0, std::as_writable_bytes(std::span{text}), "document");
    auto parsed = in_context([] { return "document"; }, [&] { return formats::held::parse_document(text); });
    if (parsed.size > size) throw failure("the segment is too short (expected {} bytes, found {})", parsed.size, size);
    HeldPart part;
    part.rank = parsed.rank;
    part.ranks = parsed.ranks;
    part.iteration = parsed.iteration;
    part.bytes = size + length;
    part.document = std::move(document);
    part.segment = std::move(segment);
    return {std::move(part), std::move(parsed)};
}

}  // namespace

HeldPart make_part(Fd document, Fd segment) {
    auto [part, parsed] = read_part(std::move(document), std::move(segment));
    if (parsed.gpu) throw failure("the state is in memory of a GPU");
    return std::move(part);
}

HeldPart make_exported_part(Fd document, Fd segment, const GpuAllocation& allocated) {
    auto [part, parsed] = read_part(std::move(document), std::move(segment));
    if (!parsed.gpu) return std::move(part);
    const auto& [bus, handle] = allocated.place;
    if (!allocated.memory || parsed.gpu->bus != bus || parsed.gpu->handle != handle)
        throw failure(
            "rank {}: the keeper has not allocated this memory of a GPU for the process; request it with "
            "'allocate'",
            parsed.rank);
    if (parsed.size != allocated.memory->size())
        throw failure("rank {}: the memory of the GPU has {} bytes instead of {}", parsed.rank,
                      allocated.memory->size(), parsed.size);
    for (const formats::held::HeldTensor& tensor : parsed.tensors)  // kernels read whole elements
        if (tensor.offset % static_cast<std::uint64_t>(itemsize(tensor.dtype)) != 0)
            throw failure("rank {}: tensor '{}' is not aligned to its elements (offset {})", part.rank, tensor.name,
                          tensor.offset);
    parsed.gpu = std::nullopt;
    const std::string text = write_document(parsed);
    part.host_document = make_memory_file(fmt::format("tpx-rank-{:05}.json", part.rank), text.size());
    write_at(part.host_document, 0, std::as_bytes(std::span{text}), "document");
    part.gpu = allocated.memory;
    part.gpu_place = allocated.place;
    return std::move(part);
}

Keeper::Keeper(std::string name, SocketFile socket, Fd listener, std::optional<Clock::time_point> deadline)
    : name_{std::move(name)}, socket_{std::move(socket)}, listener_{std::move(listener)}, deadline_{deadline} {}

Keeper::~Keeper() { socket_.remove(); }

void Keeper::hold(std::vector<HeldPart> parts, Fd config, std::string save) {
    config_ = std::move(config);
    save_ = std::move(save);
    for (HeldPart& part : parts) {
        const int rank = part.rank;
        slots_[rank].part = std::make_shared<const HeldPart>(std::move(part));
    }
    ends_when_taken_ = true;
}

void Keeper::run() {
    allowed_open_files(1);  // raises the limit
    const Fd signals = stop_signals();
    while (!ends_) poll_once(signals.get());
}

bool Keeper::is_in_use() const {
    return std::ranges::any_of(clients_, [](const Client& client) { return client.reads || client.lent; });
}

bool Keeper::is_past_deadline() const { return deadline_ && Clock::now() >= *deadline_; }

/// Milliseconds until there is something to do without a message; -1: there is nothing, or clients are to end first.
int Keeper::wait_time() const {
    constexpr std::int64_t longest = 3'600'000;
    if (copies_for_readers()) return 0;
    if (!deadline_) return -1;
    const auto left = std::chrono::ceil<std::chrono::milliseconds>(*deadline_ - Clock::now()).count();
    if (left <= 0 && is_in_use()) return -1;
    return static_cast<int>(std::clamp<std::int64_t>(left, 0, longest));
}

void Keeper::poll_once(int signals) {
    std::vector<struct pollfd> waiting{{signals, POLLIN, 0},
                                       {accepts_ && clients_.size() < most_clients ? listener_.get() : -1, POLLIN, 0}};
    for (const Client& client : clients_) waiting.push_back({client.connection.get(), POLLIN, 0});
    if (::poll(waiting.data(), waiting.size(), wait_time()) < 0 && errno != EINTR)
        throw failure("poll: {}", std::strerror(errno));
    if ((waiting[0].revents & POLLIN) != 0) ends_ = true;
    std::size_t k = 2;
    for (auto client = clients_.begin(); client != clients_.end(); ++k) {
        const bool stays = waiting[k].revents == 0 || serve(*client);
        if (!stays) close(*client);
        client = stays ? std::next(client) : clients_.erase(client);
    }
    if ((waiting[1].revents & POLLIN) != 0) accept();
    if (copies_for_readers()) complete_snapshot();
    const bool all_taken =
        std::ranges::all_of(slots_, [](const auto& slot) { return slot.second.state == State::taken; });
    if (ends_when_taken_ && all_taken) ends_ = true;
    if (is_past_deadline() && !is_in_use()) ends_ = true;
}

void Keeper::accept() {
    auto connection = accept_at(listener_);
    if (!connection) {
        // Without descriptors, others must leave first.
        if ((errno == EMFILE || errno == ENFILE) && !clients_.empty()) accepts_ = false;
        return;
    }
    const Peer peer = peer_of(*connection);
    clients_.push_back({std::move(*connection), peer.pid, peer.user != ::geteuid(), {}, {}, {}, {}});
}

/// Answers what the client sends. Returns whether it is still there.
bool Keeper::serve(Client& client) {
    try {
        auto message = receive_message(client.connection);
        if (!message) return false;
        Json reply;
        std::vector<int> files;
        try {
            reply = answer(client, *message, files);
        } catch (const KeeperBusy& error) {
            reply = {{"error", error.what()}, {"busy", true}};
        } catch (const Error& error) {
            reply = {{"error", error.what()}};
        }
        send_message(client.connection, reply.dump(-1, ' ', false, Json::error_handler_t::replace), files);
        return true;
    } catch (const std::exception&) {  // it breaks the rules, or does not read
        return false;
    }
}

void Keeper::close(Client& client) {
    accepts_ = true;
    client.reads = nullptr;
    const bool is_unused = snapshot_ && snapshot_.use_count() == 1;
    if (is_unused && (snapshot_->has_copies() || !snapshot_->is_complete())) snapshot_ = nullptr;
    if (!client.lent) return;
    Slot& lent = slots_.at(*client.lent);
    lent.state = State::held;
    lent.by = 0;
}

}  // namespace tpx::cli
