// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "lib/core/handle.hpp"
#include "lib/core/unexpected.hpp"
#include "lib/exec/mpi_library.hpp"

#include <cstdint>
#include <exception>
#include <functional>
#include <optional>
#include <span>
#include <string>
#include <vector>

namespace tpx::mpi {

struct CommTraits {
    using Raw = tpx_mpi_comm;
    static Raw null() { return 0; }
    static void free(Raw raw) noexcept {
        // MPI_Comm_free is collective: a rank that is unwinding would wait for peers that never come.
        if (std::uncaught_exceptions() == 0) functions().release_comm(raw);
    }
};

/// A group of ranks. A default one is this process alone; its collectives do nothing and MPI need not be started.
class Comm {
public:
    Comm() = default;

    /// A new communicator of all ranks that were started together. Collective.
    static Comm world();

    /// A communicator of the ranks of `other` that give the same `group`, in their order. Collective.
    static Comm split(const Comm& other, int group);

    int rank() const { return rank_; }
    int size() const { return size_; }

    /// 0 for a default one.
    tpx_mpi_comm get() const { return handle_.get(); }

private:
    explicit Comm(tpx_mpi_comm raw);

    Handle<CommTraits> handle_;
    int rank_ = 0;
    int size_ = 1;
};

/// What a message between two ranks is.
enum class Tag : int { request = 1, reply, chunk, link, offer, beat, gather };

/// A message or a collective that is under way; empty when there is none. Its bytes must stay where they are until it
/// is done.
class Request {
public:
    Request() = default;

    /// `call` is the function of MPI that started it, for messages.
    Request(tpx_mpi_request raw, const char* call) : raw_{raw}, call_{call} {}

    bool is_empty() const { return raw_ == 0; }

    /// Whether it is done, or empty; empty afterwards if it is.
    bool test();

    /// Waits without sleep, as MPI itself does: for what is timed.
    void wait_busy();

    /// Lets an unfinished message end by itself.
    void release() noexcept;

private:
    tpx_mpi_request raw_ = 0;
    const char* call_ = "";
};

/// Starts to send bytes to `rank`, or to fill `into` with what it sends, at most 2^30 bytes.
Request start_send(const Comm& comm, int rank, Tag tag, std::span<const std::byte> bytes);
Request start_receive(const Comm& comm, int rank, Tag tag, std::span<std::byte> into);

/// Starts to add up `values` over all ranks, element by element, into `sums`.
Request start_sum(const Comm& comm, std::span<const std::uint64_t> values, std::span<std::uint64_t> sums);

/// Starts to wait until all ranks are here.
Request start_barrier(const Comm& comm);

/// The rank from which a message of this tag has come and can be received, if there is one.
std::optional<int> find_message(const Comm& comm, Tag tag);

/// Waits for a request as a collective does: it sleeps, and calls the hook, when that takes long.
void wait(Request request);

/// Sends or receives without sleep: for what is timed.
void send_busy(const Comm& comm, int rank, Tag tag, std::span<const std::byte> bytes);
void receive_busy(const Comm& comm, int rank, Tag tag, std::span<std::byte> into);

/// Sends bytes to `rank`, or fills `into` with what it sends, at most 2^30 bytes. Messages of one tag arrive in order.
void send(const Comm& comm, int rank, Tag tag, std::span<const std::byte> bytes);
void receive(const Comm& comm, int rank, Tag tag, std::span<std::byte> into);

/// The same for any number of bytes, in as many messages as they need; the receiver must know the number.
void send_in_parts(const Comm& comm, int rank, Tag tag, std::span<const std::byte> bytes);
void receive_in_parts(const Comm& comm, int rank, Tag tag, std::span<std::byte> into);

/// Waits until all ranks are here.
void barrier(const Comm& comm);

/// Replaces `values` on every rank by their combination over all ranks, element by element.
void all_xor(const Comm& comm, std::span<std::uint64_t> values);
void all_sum(const Comm& comm, std::span<std::uint64_t> values);
void all_min(const Comm& comm, std::span<std::uint64_t> values);
void all_max(const Comm& comm, std::span<std::uint64_t> values);

/// Gives every rank the bytes that `root` has.
void broadcast(const Comm& comm, std::string& bytes, int root = 0);

/// The bytes of all ranks, in their order, on rank 0; nothing on the others, which receive nothing.
std::vector<std::string> gather(const Comm& comm, const std::string& bytes);

/// The bytes of all ranks, in their order, on every rank.
std::vector<std::string> all_gather(const Comm& comm, const std::string& bytes);

/// An error that every rank holds, so that the job can end in an orderly way and report it once.
class AgreedError : public Error {
public:
    explicit AgreedError(const Error& error) : Error{error} {}
};

/// Returns when no rank has an error. Otherwise throws the lowest failing rank's on every rank, as an AgreedError that
/// names the rank unless all ranks failed. Collective.
void agree(const Comm& comm, const Error* mine);

/// The same for what was caught, null for nothing; that may be an AgreedError of a part of the ranks.
void agree_on(const Comm& comm, const std::exception_ptr& error);

/// While it exists, `look` is called about every millisecond in which this thread waits for others, or for its own work
/// in all_or_none(), which `working` says. One at a time.
class WaitHook {
public:
    explicit WaitHook(std::function<void(bool working)> look);
    ~WaitHook();
    WaitHook(const WaitHook&) = delete;
    WaitHook& operator=(const WaitHook&) = delete;
};

/// Calls the hook of this thread, if it has one.
void call_hook(bool working);

/// Runs `body`, on another thread if there is a hook to call meanwhile. Lets its exceptions through.
void run_watched(const std::function<void()>& body);

/// Runs `body` on every rank, then fails on all of them if it failed on any. `body` must not communicate.
template <class Body>
void all_or_none(const Comm& comm, Body&& body) {
    try {
        run_watched(body);
    } catch (const AgreedError&) {
        throw;
    } catch (const Error& error) {
        return agree(comm, &error);
    } catch (const std::exception& error) {
        const Error mine = unexpected(error);
        return agree(comm, &mine);
    }
    agree(comm, nullptr);
}

}  // namespace tpx::mpi
