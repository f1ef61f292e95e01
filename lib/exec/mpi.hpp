// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "lib/core/handle.hpp"
#include "lib/core/unexpected.hpp"

#include <mpi.h>

#include <cstdint>
#include <exception>
#include <functional>
#include <span>
#include <string>
#include <vector>

namespace tpx::mpi {

struct CommTraits {
    using Raw = MPI_Comm;
    static Raw null() { return MPI_COMM_NULL; }
    static void free(Raw raw) noexcept {
        // MPI_Comm_free is collective: a rank that is unwinding would wait for peers that never come.
        if (std::uncaught_exceptions() == 0) MPI_Comm_free(&raw);
    }
};

/// A group of ranks. A default one is this process alone; its collectives do nothing and MPI need not be initialised.
class Comm {
public:
    Comm() = default;

    /// A communicator of the ranks of `other`, of its own. Collective.
    static Comm duplicate(MPI_Comm other);

    /// A communicator of the ranks of `other` that give the same `group`, in their order. Collective.
    static Comm split(const Comm& other, int group);

    int rank() const { return rank_; }
    int size() const { return size_; }

    /// MPI_COMM_NULL for a default one.
    MPI_Comm get() const { return handle_.get(); }

private:
    explicit Comm(MPI_Comm raw);

    Handle<CommTraits> handle_;
    int rank_ = 0;
    int size_ = 1;
};

/// Throws Error "CALL: reason" unless `code` is MPI_SUCCESS.
void check(int code, const char* call);

/// What a message between two ranks is.
enum class Tag : int { request = 1, reply, chunk };

/// Waits for a request as a collective does: it sleeps, and calls the hook, when that takes long.
void wait(MPI_Request request, const char* call);

/// Sends bytes to `rank`, or fills `into` with what it sends, at most 2^30 bytes. Messages of one tag arrive in order.
void send(const Comm& comm, int rank, Tag tag, std::span<const std::byte> bytes);
void receive(const Comm& comm, int rank, Tag tag, std::span<std::byte> into);

/// Waits until all ranks are here.
void barrier(const Comm& comm);

/// Replaces `values` on every rank by their combination over all ranks, element by element.
void all_xor(const Comm& comm, std::span<std::uint64_t> values);
void all_sum(const Comm& comm, std::span<std::uint64_t> values);
void all_min(const Comm& comm, std::span<std::uint64_t> values);
void all_max(const Comm& comm, std::span<std::uint64_t> values);

/// Gives every rank the bytes that `root` has.
void broadcast(const Comm& comm, std::string& bytes, int root = 0);

/// The bytes of all ranks, in their order, on rank 0; nothing on the others.
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

/// While it exists, `look` is called about every millisecond in which this rank waits for others, or for its own work
/// in all_or_none(), which `working` says. One at a time.
class WaitHook {
public:
    explicit WaitHook(std::function<void(bool working)> look);
    ~WaitHook();
    WaitHook(const WaitHook&) = delete;
    WaitHook& operator=(const WaitHook&) = delete;
};

/// Calls the hook that exists now, if any.
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
