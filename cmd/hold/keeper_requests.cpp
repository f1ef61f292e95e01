// SPDX-License-Identifier: Apache-2.0
#include "cmd/hold/gpu_source.hpp"
#include "cmd/hold/held_snapshot.hpp"
#include "cmd/hold/keeper.hpp"
#include "lib/core/memory_file.hpp"
#include "lib/core/units.hpp"
#include "lib/exec/gpu_memory.hpp"
#include "lib/exec/local_socket.hpp"

#include <nlohmann/json.hpp>

#include <fmt/ranges.h>
#include <unistd.h>

#include <algorithm>
#include <array>

// The answers of a keeper to requests; tpx-hold(1) describes the messages.
namespace tpx::cli {
namespace {

using Json = nlohmann::ordered_json;

template <class... Args>
KeeperBusy busy(fmt::format_string<Args...> format, Args&&... args) {
    return KeeperBusy{Exit::failure, format, std::forward<Args>(args)...};
}

int rank_in(const Json& json) {
    if (!json.contains("rank") || !json["rank"].is_number_unsigned() || json["rank"].get<std::uint64_t>() > 1u << 30)
        throw failure("'rank' is missing or not a whole number from 0 to {}", 1u << 30);
    return json["rank"].get<int>();
}

}  // namespace

Json Keeper::answer(Client& client, LocalMessage& message, std::vector<int>& files) {
    if (client.is_other_user) throw failure("the state belongs to user {}", ::geteuid());
    const Json json = Json::parse(message.text, nullptr, false);
    if (!json.is_object() || !json.contains("op") || !json["op"].is_string()) throw failure("the request has no op");
    const std::string op = json["op"].get<std::string>();
    if (op == "list") return list();
    const bool continues = op == "done" || op == "release" || ((op == "read" || op == "open") && client.reads);
    if (!continues && is_past_deadline()) throw failure("the timeout has passed");
    if (op == "put") {
        put(client, message);
    } else if (op == "allocate") {
        return allocate(client, json, files);
    } else if (op == "take") {
        take(client, rank_in(json), files);
    } else if (op == "done") {
        end_take(client);
    } else if (op == "read") {
        return read(client);
    } else if (op == "open") {
        return open(client);
    } else if (op == "release") {
        ends_ = true;
    } else {
        throw failure("unknown op '{}'", op);
    }
    return {{"ok", true}};
}

Json Keeper::list() const {
    constexpr std::array states{"held", "being taken", "taken"};
    Json json{{"name", name_}, {"process", ::getpid()}, {"seconds_left", nullptr}, {"ranks", Json::array()}};
    if (deadline_)
        json["seconds_left"] = std::max(0.0, std::chrono::duration<double>(*deadline_ - Clock::now()).count());
    for (const auto& [rank, slot] : slots_) {
        Json one{{"rank", rank}, {"state", states[static_cast<std::size_t>(slot.state)]}};
        if (slot.part) one["bytes"] = slot.part->bytes;
        if (slot.part && slot.part->gpu) one["gpu"] = slot.part->gpu->gpu();
        if (slot.part && slot.part->iteration) one["iteration"] = *slot.part->iteration;
        if (slot.by != 0) one["by"] = slot.by;
        json["ranks"].push_back(std::move(one));
    }
    return json;
}

void Keeper::check_takes_exports() const {
    if (ends_when_taken_) throw failure("the keeper holds a checkpoint; export to one started with --empty");
}

/// A file in memory for the state that the client exports next and, with the address of a GPU, also memory of the GPU.
Json Keeper::allocate(Client& client, const Json& request, std::vector<int>& files) {
    constexpr std::size_t most_allocations = 16;
    check_takes_exports();
    if (!request.contains("size") || !request["size"].is_number_unsigned() ||
        (request.contains("bus") && !request["bus"].is_string()))
        throw failure("'allocate' needs a 'size' in bytes and, for memory of a GPU, its PCI address 'bus'");
    if (client.reservations.size() >= most_allocations)
        throw failure("this connection already has {} allocations; send 'put' or close the connection",
                      most_allocations);
    const auto size = request["size"].get<std::uint64_t>();
    const bool is_on_gpu = request.contains("bus");
    Json reply{{"ok", true}};
    if (is_on_gpu)
        reply = allocate_on_gpu(client, request["bus"].get<std::string>(), size);
    else
        check_room(client, size);
    client.reservations.push_back({make_memory_file("tpx-export", size), is_on_gpu ? 0 : size});
    files = {client.reservations.back().file.get()};
    return reply;
}

/// Throws Error unless the host has room for memory that the client will write to, beside what is reserved for other
/// exports.
void Keeper::check_room(const Client& client, std::uint64_t size) const {
    std::uint64_t reserved = 0;
    for (const Client& other : clients_)
        for (const Reservation& one : other.reservations)
            reserved += one.size - std::min(one.size, allocated_bytes(one.file));
    // The kernel charges memory to the process that first writes to it.
    const AvailableMemory room = available_memory("/", std::to_string(client.process));
    const std::uint64_t free = room.bytes - std::min(room.bytes, reserved);
    if (size > free)
        throw failure("{} do not fit into memory: {} are free ({})", format_size(size), format_size(free), room.limit);
}

/// Replaces what was allocated for the client on a GPU before.
Json Keeper::allocate_on_gpu(Client& client, const std::string& bus, std::uint64_t size) const {
    client.allocated = {};
    const auto memory = std::make_shared<GpuMemory>(gpu_with_address(bus), size);
    const std::string handle = hexadecimal(memory->handle());
    client.allocated = {memory, {bus, handle}};
    return {{"ok", true}, {"bus", bus}, {"handle", handle}};
}

void Keeper::put(Client& client, LocalMessage& message) {
    check_takes_exports();
    if (message.files.size() != 2) throw failure("{} files instead of a document and a segment", message.files.size());
    HeldPart part = make_exported_part(std::move(message.files[0]), std::move(message.files[1]), client.allocated);
    const int rank = part.rank;
    if (const auto known = slots_.find(rank); known != slots_.end() && known->second.state == State::lent)
        throw busy("rank {} is being taken by process {}", rank, known->second.by);
    if (part.ranks > 1 && !part.iteration)
        throw failure("rank {}: 'iteration' is missing, which distinguishes steps", rank);
    // Ranks of a former job with another number of ranks would never fit to the new ones.
    std::erase_if(slots_, [&](const auto& slot) {
        return slot.second.state != State::lent && (!slot.second.part || slot.second.part->ranks != part.ranks);
    });
    slots_[rank] = {std::make_shared<const HeldPart>(std::move(part))};
    client.allocated = {};
    client.reservations.clear();
    snapshot_ = nullptr;
}

Keeper::Slot& Keeper::slot(int rank) {
    const auto found = slots_.find(rank);
    if (found != slots_.end()) return found->second;
    constexpr std::size_t shown = 5;
    std::vector<int> ranks;
    for (const auto& [other, slot] : slots_)
        if (ranks.size() < shown) ranks.push_back(other);
    throw failure("rank {} is not held here ({})", rank,
                  ranks.empty() ? "nothing is"
                                : fmt::format("ranks {}{} are", fmt::join(ranks, ", "),
                                              slots_.size() > shown ? " and others" : ""));
}

void Keeper::take(Client& client, int rank, std::vector<int>& files) {
    Slot& wanted = slot(rank);
    if (client.lent) throw failure("rank {} must be taken first", *client.lent);
    if (wanted.state == State::taken) throw failure("rank {} was taken by process {}", rank, wanted.by);
    if (wanted.state == State::lent) throw busy("rank {} is being taken by process {}", rank, wanted.by);
    for (const Client& other : clients_)
        if (other.reads && other.reads->has(wanted.part))
            throw busy("rank {} is being read by process {}", rank, other.process);
    files = {wanted.part->document.get(), wanted.part->segment.get()};
    wanted.state = State::lent;
    wanted.by = client.process;
    client.lent = rank;
}

void Keeper::end_take(Client& client) {
    if (!client.lent) throw failure("no rank is being taken");
    Slot& lent = slots_.at(*client.lent);
    lent.state = State::taken;
    lent.part = nullptr;
    client.lent = {};
    snapshot_ = nullptr;
}

/// What is held, for readers; with copies of what is on GPUs, or without.
std::shared_ptr<HeldSnapshot> Keeper::take_snapshot(Copies of_gpus) const {
    std::vector<std::shared_ptr<const HeldPart>> parts;
    for (const auto& [rank, slot] : slots_)
        if (slot.part) parts.push_back(slot.part);
    return std::make_shared<HeldSnapshot>(std::move(parts), save_, config_ ? std::to_string(config_.get()) : "",
                                          of_gpus == Copies::made);
}

bool Keeper::copies_for_readers() const { return snapshot_ && !snapshot_->is_complete(); }

/// Continues the copy for readers. If it fails, their next request returns the cause.
void Keeper::complete_snapshot() {
    try {
        snapshot_->step();
    } catch (const Error& error) {
        no_snapshot_ = error.what();
        snapshot_ = nullptr;
    }
}

void Keeper::check_none_is_lent() const {
    for (const auto& [rank, slot] : slots_)
        if (slot.state == State::lent) throw busy("rank {} is being taken by process {}", rank, slot.by);
}

/// The path of the manifest, which other processes of this user can open.
Json Keeper::place_of(const HeldSnapshot& snapshot) const {
    return {{"manifest", fmt::format("/proc/{}/fd/{}", ::getpid(), snapshot.manifest().get())}};
}

/// A manifest of all that is held where it is: the client opens the memory of GPUs itself.
Json Keeper::open(Client& client) {
    check_none_is_lent();
    auto snapshot = take_snapshot(Copies::none);
    snapshot->step();
    client.reads = snapshot;
    return place_of(*snapshot);
}

/// A manifest of all that is held, as files in memory of the host; or that it is being copied there.
Json Keeper::read(Client& client) {
    check_none_is_lent();
    if (!snapshot_ && client.reads && !client.reads->is_complete() && !no_snapshot_.empty()) {
        client.reads = nullptr;
        throw failure("{}", no_snapshot_);
    }
    if (!snapshot_) {
        snapshot_ = take_snapshot(Copies::made);
        no_snapshot_.clear();
    }
    client.reads = snapshot_;
    const bool is_on_gpu =
        std::ranges::any_of(slots_, [](const auto& slot) { return slot.second.part && slot.second.part->gpu; });
    if (!is_on_gpu && copies_for_readers()) snapshot_->step();
    if (copies_for_readers()) return {{"copying", true}};
    return place_of(*snapshot_);
}

}  // namespace tpx::cli
