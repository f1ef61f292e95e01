// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "formats/state/adam.hpp"
#include "lib/core/catalogue.hpp"
#include "lib/layout/config.hpp"
#include "lib/layout/layout.hpp"
#include "lib/layout/reading.hpp"

#include <filesystem>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace tpx::torch {
struct Value;
}

namespace tpx::formats {

struct RankFiles;
namespace hdf5 {
struct Tree;
}

struct Driver;

/// A format is known by its driver (formats/driver.hpp), which answers all questions about it.
using Format = const Driver*;

/// The format of checkpoints that are made in memory.
extern const Format default_format;

/// The value of --format.
std::string_view name(Format format);
std::optional<Format> format_by_name(std::string_view name);

/// What part of a torch.save archive's tensor a piece is: its elements lie, by its own strides, from element `begin`
/// on.
struct Inside {
    Index elements = 0;  ///< of the archive's tensor; 0: the piece is all of it
    Index begin = 0;
};

/// A tensor whose elements are no numbers of their own: ggml's blocks share scales.
struct Quantised {
    std::string name;
    std::string type;  ///< "Q4_K"
    Shape shape;
    std::uint32_t file = 0;
    std::uint64_t offset = 0;
    std::uint64_t bytes = 0;  ///< of its blocks, which lie in one run
};

/// A file in which one rank stores values beside its tensors, and the coordinates of this rank.
struct RankValues {
    std::filesystem::path file;  ///< relative to the catalogue's directory
    int pp = 0;
    int tp = 0;
    int ep = 0;
    bool has_extra_states = false;  ///< of TransformerEngine, with content: scales of FP8
};

/// A checkpoint on disk, opened for reading.
struct Checkpoint {
    Format format = default_format;
    std::string variant;  ///< of the format, for people: "in memory"; empty: the usual one
    Catalogue catalogue;
    std::set<std::uint32_t> missing_files;  ///< files of the catalogue that do not exist; their pieces are not located

    /// Bytes of the torch.save archive that holds each piece, parallel to catalogue.pieces; empty for formats whose
    /// pieces are raw. Until locate() has run, such a piece's offset is where its archive starts.
    std::vector<std::uint64_t> archives;
    std::vector<Inside> insides;  ///< parallel to archives; empty: every piece is a whole archive

    /// The CRC-32 (as in zip) of each raw piece, parallel to catalogue.pieces; unset: unknown. Empty: all are unknown.
    std::vector<std::optional<std::uint32_t>> crcs;

    /// What each tensor is, where the format itself tells; state is named PARAMETER/STATE then. Empty: names tell it by
    /// a family's rules.
    std::vector<Role> roles;
    std::vector<std::string> parameters;        ///< the PARAMETER of each, where names have another form; else empty
    std::map<std::string, std::string> shared;  ///< names of tensors that are kept under other names
    std::optional<Layout> layout;               ///< what the checkpoint itself tells; else it is seen by the boxes

    Config config;            ///< config.json's scalars, or the scalars of Megatron's args; empty when there are none
    std::string config_json;  ///< the text of config.json; empty when there is none
    std::optional<std::int64_t> iteration;
    std::string save_id;  ///< a UUID that the writer chose for this save, such as PyTorch in .metadata; else empty

    /// Files that are no tensors and that a checkpoint of the same format keeps (config.json, tokenizer files),
    /// relative.
    std::vector<std::filesystem::path> companions;

    /// Optimizer, scheduler and RNG files of transformers' Trainer and of accelerate, and a LoRA adapter beside the
    /// weights of its base: carried byte for byte into another Hugging Face folder, and to no other format.
    std::vector<std::filesystem::path> training_files;
    std::vector<std::filesystem::path> adapter_files;

    std::vector<std::string> notes;  ///< what a person should know, a line each: files left aside and why

    std::shared_ptr<const torch::Value> common;  ///< Megatron's common state; null when there is none
    std::map<std::string, std::string, std::less<>> common_storages;  ///< of its tensors, by key
    std::shared_ptr<const torch::Value> planner_data;  ///< DCP's map from name to path; null when there is none

    std::shared_ptr<const RankFiles> rank_files;  ///< of Megatron's legacy format; null for others
    std::vector<RankValues> rank_values;          ///< of Megatron's legacy format, sorted by rank; empty for others
    std::shared_ptr<const hdf5::Tree> tree;       ///< of HDF5 files: groups and attributes; null for others

    std::vector<Quantised>
        quantised;  ///< tensors that the catalogue leaves out, as their blocks are compared but not moved
};

/// Whether files of tensors may be missing, as in one host's folder of `tpx migrate`.
enum class MissingFiles {
    refused,
    allowed  ///< in DCP and torch_dist; what reads their tensors fails
};

/// Opens the checkpoint at `path` (a directory, or one file), recognised by its content. Throws Error when it is of no
/// known format, or is malformed: overlapping or missing boxes, names twice, files too short.
Checkpoint open(const std::filesystem::path& path, MissingFiles missing = MissingFiles::refused);

/// Finds the payload of `pieces` (indices into the catalogue), all that lie in torch.save archives: sets offset and
/// strides. Throws Error when an archive does not hold the one tensor that the catalogue promises.
void locate(Checkpoint& checkpoint, std::span<const std::uint32_t> pieces);

/// Answers a FileQuestion of locate() about the file at `path`.
std::string answer_about(const std::filesystem::path& path, std::string_view question);

/// A tensor that lies in the bytes of another one, as tied and sliced tensors do.
struct View {
    std::string name;
    Shape shape;
    Strides strides;           ///< in elements
    std::uint32_t tensor = 0;  ///< the other one, whose dtype it has
    std::uint64_t begin = 0;   ///< its first element among those of the other one
};

/// What a new checkpoint shall hold. Pieces say box and rank; where they go in which file is the draft's business. The
/// offset of a large piece is its best position in a block of the file system (file_blocks.hpp).
struct Content {
    std::vector<Tensor> tensors;
    std::vector<Piece> pieces;
    const Checkpoint* source =
        nullptr;    ///< objects, common state and companions are taken from it, where the format can hold them
    int ranks = 1;  ///< of the new layout
    Layout layout;  ///< the new layout itself
    std::optional<std::uint64_t> shard_size;  ///< safetensors: largest file in bytes; unset: 5 GB
    Config args;                              ///< Megatron: entries of args to set, as the layout demands
    const Reading* reading = nullptr;         ///< what the tensors are, for Megatron's files and for `adam`
    std::optional<Adam> adam;                 ///< of optimizer state that came from another framework
    bool split_by_holders = false;         ///< see Target; objects, which all ranks read, have a file of their own then
    std::vector<View> views;               ///< torch: tensors beside `tensors` that need no bytes of their own
    std::optional<std::vector<int>> held;  ///< see Target
};

/// The bytes of a new checkpoint around its payloads. Adds to `notes`, if given, what a person should know.
Draft draft(Format format, const Content& content, std::vector<std::string>& notes);
Draft draft(Format format, const Content& content);

}  // namespace tpx::formats
