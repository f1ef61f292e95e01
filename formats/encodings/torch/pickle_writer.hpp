// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "formats/encodings/torch/value.hpp"

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <unordered_map>

namespace tpx::torch {

/// The form of storage ids: in legacy streams they have an additional item for a view, which is always None.
enum class StorageIds { of_archives, of_streams };

/// Emits a pickle of protocol 2, opcode by opcode, with strings and globals written once and then referred to. Values
/// are pushed on the reader's stack in the order of the calls; tuple() and the like consume what was pushed since
/// mark(). Fast enough for the millions of objects of a large .metadata.
class PickleWriter {
public:
    PickleWriter();

    void none();
    void boolean(bool value);
    void integer(std::int64_t value);
    void real(double value);
    void string(std::string_view text);
    void bytes(std::string_view data);
    void global(std::string_view module, std::string_view name);
    /// torch.Size of `dimensions`.
    void size(std::span<const std::int64_t> dimensions);

    void mark();
    void tuple();        ///< closes a mark
    void empty_tuple();  ///< needs no mark
    void empty_list();
    void appends();  ///< closes a mark that follows a list
    void empty_dict();
    void set_items();   ///< closes a mark that follows a dict: key, value, key, value, ...
    void reduce();      ///< callable, tuple -> callable(*tuple)
    void new_object();  ///< class, tuple -> class.__new__(class, *tuple)
    void build();       ///< object, state -> object with that state
    void persistent();  ///< id -> the storage of that id

    /// Writes a whole tree, each shared node once. Throws Error if a tuple contains itself.
    void value(Value value, StorageIds ids = StorageIds::of_archives);

    /// Ends the pickle and returns it. The writer can then write another pickle.
    std::string finish();

private:
    friend class TreeWriter;

    void opcode(char code) { out_.push_back(code); }
    void little(std::uint64_t value, std::size_t bytes);
    void put(std::uint32_t slot);
    void get(std::uint32_t slot);
    void short_tuple(std::size_t size);  ///< of one to three values, without a mark
    void big_integer(std::string_view two_complement);

    std::string out_;
    std::uint32_t next_slot_ = 0;
    std::unordered_map<std::string, std::uint32_t> strings_;
    std::unordered_map<std::string, std::uint32_t> globals_;
};

/// The pickle of a tree, protocol 2. torch.load(weights_only=True) accepts it if the tree contains only dict, list,
/// tuple, str, int, float, bool, None, torch.Size, dtypes, OrderedDict and tensors.
std::string write_pickle(Value root, StorageIds ids = StorageIds::of_archives);

}  // namespace tpx::torch
