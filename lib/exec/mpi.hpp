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
        // MPI_Comm_free is collective: a rank that is unwinding would wait for peers that never call it.
        if (std::uncaught_exceptions() == 0) functions().release_comm(raw);
    }
};

/// A group of ranks. A default-constructed one is this process alone: its collectives do nothing and do not need MPI.
class Comm {
public:
    Comm() = default;

    /// A new communicator of all ranks that were started together. Collective.
    static Comm world();

    /// A communicator of the ranks of `other` that pass the same `group`, in their order. Collective.
    static Comm split(const Comm& other, int group);

    int rank() const { return rank_; }
    int size() const { return size_; }

    /// 0 for a default-constructed Comm.
    tpx_mpi_comm get() const { return handle_.get(); }

private:
    explicit Comm(tpx_mpi_comm raw);

    Handle<CommTraits> handle_;
    int rank_ = 0;
    int size_ = 1;
};

/// The purpose of a message between two ranks.
enum class Tag : int { request = 1, reply, chunk, link, offer, beat, gather, stop };

/// A message or a collective that is in progress; empty if there is none. Its bytes must stay where they are until it
/// is done.
class Request {
public:
    Request() = default;

    /// `call` is the MPI function that started it, for error messages.
    Request(tpx_mpi_request raw, const char* call) : raw_{raw}, call_{call} {}

    bool is_empty() const { return raw_ == 0; }

    /// Whether the request is done or empty; a request that is done becomes empty.
    bool test();

    /// Waits without sleeping, as MPI itself does; for timed operations.
    void wait_busy();

    /// Lets an unfinished message complete on its own.
    void release() noexcept;

private:
    tpx_mpi_request raw_ = 0;
    const char* call_ = "";
};

/// Starts to send bytes to `rank`, or to receive bytes from `rank` into `into`; at most 2^30 bytes.
Request start_send(const Comm& comm, int rank, Tag tag, std::span<const std::byte> bytes);
Request start_receive(const Comm& comm, int rank, Tag tag, std::span<std::byte> into);

/// Starts to add up `values` over all ranks, element by element, into `sums`.
Request start_sum(const Comm& comm, std::span<const std::uint64_t> values, std::span<std::uint64_t> sums);

/// Starts to wait until all ranks have called it.
Request start_barrier(const Comm& comm);

/// A rank whose message with this tag has arrived and can be received, if there is one.
std::optional<int> find_message(const Comm& comm, Tag tag);

/// Waits for a request as collectives do: if that takes long, sleeps and calls the hook.
void wait(Request request);

/// Sends or receives without sleeping; for timed operations.
void send_busy(const Comm& comm, int rank, Tag tag, std::span<const std::byte> bytes);
void receive_busy(const Comm& comm, int rank, Tag tag, std::span<std::byte> into);

/// Sends bytes to `rank`, or receives bytes from `rank` into `into`; at most 2^30 bytes. Messages of one tag arrive in
/// order.
void send(const Comm& comm, int rank, Tag tag, std::span<const std::byte> bytes);
void receive(const Comm& comm, int rank, Tag tag, std::span<std::byte> into);

/// The same for any number of bytes, in as many messages as needed; the receiver must know the number of bytes.
void send_in_parts(const Comm& comm, int rank, Tag tag, std::span<const std::byte> bytes);
void receive_in_parts(const Comm& comm, int rank, Tag tag, std::span<std::byte> into);

/// Waits until all ranks have called it.
void barrier(const Comm& comm);

/// Replaces `values` on every rank with their combination over all ranks, element by element.
void all_xor(const Comm& comm, std::span<std::uint64_t> values);
void all_sum(const Comm& comm, std::span<std::uint64_t> values);
void all_min(const Comm& comm, std::span<std::uint64_t> values);
void all_max(const Comm& comm, std::span<std::uint64_t> values);

/// Gives every rank the bytes that `root` has.
void broadcast(const Comm& comm, std::string& bytes, int root = 0);

/// The bytes of all ranks, in their order, on rank 0; an empty list on the other ranks, to which nothing is sent.
std::vector<std::string> gather(const Comm& comm, const std::string& bytes);

/// The bytes of all ranks, in their order, on every rank.
std::vector<std::string> all_gather(const Comm& comm, const std::string& bytes);

/// An error that every rank has, so that the job can end in an orderly way and report the error once.
class AgreedError : public Error {
public:
    explicit AgreedError(const Error& error) : Error{error} {}
};

/// Returns if no rank has an error. Otherwise throws the error of the lowest failing rank on every rank, as an
/// AgreedError that names the rank unless all ranks failed. Collective.
void agree(const Comm& comm, const Error* mine);

/// The same for a caught exception, or null if there was none. The exception may be an AgreedError of some of the
/// ranks.
void agree_on(const Comm& comm, const std::exception_ptr& error);

/// While a WaitHook exists, its thread calls `look` about every millisecond while it waits for other ranks, or for its
/// own work in all_or_none(): then `working` is true. At most one may exist per thread.
class WaitHook {
public:
    explicit WaitHook(std::function<void(bool working)> look);
    ~WaitHook();
    WaitHook(const WaitHook&) = delete;
    WaitHook& operator=(const WaitHook&) = delete;
};

/// Calls the hook of this thread, if it has one.
void call_hook(bool working);

/// Runs `body`, on another thread if there is a hook to call meanwhile. Rethrows its exceptions.
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
