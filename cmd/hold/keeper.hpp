// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "lib/core/error.hpp"
#include "lib/core/file.hpp"
#include "lib/exec/local_socket.hpp"

#include <nlohmann/json_fwd.hpp>

#include <chrono>
#include <cstdint>
#include <list>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

namespace tpx {
class GpuMemory;
}  // namespace tpx

namespace tpx::cli {

class HeldSnapshot;

/// What is held of one rank: two files in memory, and memory of a GPU if that has the tensors.
struct HeldPart {
    int rank = 0;
    int ranks = 1;
    std::optional<std::int64_t> iteration;
    std::uint64_t bytes = 0;  ///< of both
    Fd document;
    Fd segment;
    std::shared_ptr<const GpuMemory> gpu;  ///< has the bytes of the segment, which has holes where the tensors were
    Fd host_document;                      ///< with a GPU: of the segment without holes
    std::pair<std::string, std::string> gpu_place;  ///< with a GPU: its PCI address, and the handle in hexadecimal
};

/// A refusal that may be over when the client tries again.
struct KeeperBusy : Error {
    using Error::Error;
};

/// Takes over the files of a rank's state. Throws Error unless they are files in memory, and the document is valid and
/// describes the segment.
HeldPart make_part(Fd document, Fd segment);

/// GPU memory that a keeper has allocated for a client, and the place that documents name.
struct GpuAllocation {
    std::shared_ptr<const GpuMemory> memory;
    std::pair<std::string, std::string> place;  ///< PCI address, and the handle in hexadecimal
};

/// The same for exported state, whose tensors may be in `allocated`. Throws Error if the document names other memory of
/// a GPU.
HeldPart make_exported_part(Fd document, Fd segment, const GpuAllocation& allocated);

/// Serves trainers and tpx until every rank passed to hold() is taken, the deadline passes or a client requests the
/// end. Runs in one thread, never waits for a client, and serves only this user's processes.
class Keeper {
public:
    using Clock = std::chrono::steady_clock;

    /// `listener` is bound to `socket`, which is removed in the end.
    Keeper(std::string name, SocketFile socket, Fd listener, std::optional<Clock::time_point> deadline);
    ~Keeper();
    Keeper(const Keeper&) = delete;
    Keeper& operator=(const Keeper&) = delete;

    /// Adds the parts of a checkpoint; run() then returns once all of them are taken, and nothing can be exported.
    /// `config` is a config.json, or null; `save` identifies the save; empty: unknown.
    void hold(std::vector<HeldPart> parts, Fd config, std::string save);

    void run();

private:
    enum class State { held, lent, taken };
    struct Slot {
        std::shared_ptr<const HeldPart> part;  ///< null: taken
        State state = State::held;
        int by = 0;  ///< the process that has it
    };
    /// Memory of the host that a client got for an export. Counts as used until `put` or disconnect, even where it is
    /// not written yet.
    struct Reservation {
        Fd file;
        std::uint64_t size = 0;  ///< bytes that count as used; 0 for exports to a GPU
    };
    struct Client {
        Fd connection;
        int process = 0;
        bool is_other_user = false;  ///< whose requests are refused
        std::optional<int> lent;     ///< the rank that it is taking
        std::shared_ptr<const HeldSnapshot> reads;
        GpuAllocation allocated;  ///< for the state that it exports next; no memory: none
        std::vector<Reservation> reservations;
    };

    void poll_once(int signals);
    int wait_time() const;
    bool is_in_use() const;  ///< a client reads or takes
    bool is_past_deadline() const;
    void accept();
    bool serve(Client& client);
    void close(Client& client);
    nlohmann::ordered_json answer(Client& client, LocalMessage& message, std::vector<int>& files);
    nlohmann::ordered_json list() const;
    void put(Client& client, LocalMessage& message);
    nlohmann::ordered_json allocate(Client& client, const nlohmann::ordered_json& request, std::vector<int>& files);
    nlohmann::ordered_json allocate_on_gpu(Client& client, const std::string& bus, std::uint64_t size) const;
    void check_room(const Client& client, std::uint64_t size) const;
    void check_takes_exports() const;
    void take(Client& client, int rank, std::vector<int>& files);
    void end_take(Client& client);
    nlohmann::ordered_json read(Client& client);
    nlohmann::ordered_json open(Client& client);
    nlohmann::ordered_json place_of(const HeldSnapshot& snapshot) const;
    void check_none_is_lent() const;
    enum class Copies { made, none };
    std::shared_ptr<HeldSnapshot> take_snapshot(Copies of_gpus) const;
    void complete_snapshot();
    bool copies_for_readers() const;
    Slot& slot(int rank);

    std::string name_;
    SocketFile socket_;
    Fd listener_;
    Fd config_;
    std::string save_;
    std::optional<Clock::time_point> deadline_;
    std::map<int, Slot> slots_;  // by rank
    std::list<Client> clients_;
    std::shared_ptr<HeldSnapshot> snapshot_;  // of the state as it is, kept while a client reads; null: none
    std::string no_snapshot_;                 // why the last one could not be completed
    bool accepts_ = true;                     ///< new clients
    bool ends_when_taken_ = false;
    bool ends_ = false;
};

}  // namespace tpx::cli
