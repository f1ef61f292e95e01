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

/// The format of a Checkpoint or Target that sets no other: safetensors.
extern const Format default_format;

/// The value of --format.
std::string_view name(Format format);
std::optional<Format> format_by_name(std::string_view name);

/// The part of a torch.save archive's tensor that a piece is. Its elements start at element `begin`; the piece has
/// strides of its own.
struct ArchiveSlice {
    Index elements = 0;  ///< of the archive's tensor; 0: the piece is the whole tensor
    Index begin = 0;
};

/// A tensor stored in quantized blocks, whose elements share scales, such as ggml's.
struct OpaqueTensor {
    std::string name;
    std::string type;  ///< "Q4_K"
    Shape shape;
    std::uint32_t file = 0;
    std::uint64_t offset = 0;
    std::uint64_t bytes = 0;  ///< of its blocks, which are contiguous
};

/// A file in which one rank stores non-tensor values beside its tensors, and the rank's coordinates.
struct RankValues {
    std::filesystem::path file;  ///< relative to the catalogue's directory
    int pp = 0;
    int tp = 0;
    int ep = 0;
    bool has_extra_states = false;  ///< whether TransformerEngine's extra states have content: FP8 scales
    std::vector<int> first_layers;  ///< for each model chunk, the number of its first layer in the model
};

/// A checkpoint on disk, opened for reading.
struct Checkpoint {
    Format format = default_format;
    std::string variant;  ///< of the format, for display: "in memory"; empty: the usual one
    Catalogue catalogue;
    std::set<std::uint32_t> missing_files;  ///< files of the catalogue that do not exist; their pieces are not located

    /// Bytes of the torch.save archive that holds each piece, parallel to catalogue.pieces; empty for formats whose
    /// pieces are raw. Until locate() has run, the offset of a piece in an archive is the offset of the archive.
    std::vector<std::uint64_t> archives;
    std::vector<ArchiveSlice> archive_slices;  ///< parallel to archives; empty: every piece is a whole archive

    /// The CRC-32 (as in zip) of each raw piece, parallel to catalogue.pieces; unset: unknown. Empty: all are unknown.
    std::vector<std::optional<std::uint32_t>> crcs;

    /// The role of each tensor, if the format records it; optimizer state is then named PARAMETER/STATE. Empty: a
    /// family's rules derive roles from names.
    std::vector<Role> roles;
    std::vector<std::string> parameters;  ///< the PARAMETER of each tensor, if names have another form; else empty
    std::map<std::string, std::string> shared;  ///< from names of shared tensors to the names that store them
    std::optional<Layout> layout;               ///< as the checkpoint records it; unset: to be detected from boxes

    Config config;            ///< scalars of config.json or of Megatron's args; empty if there are none
    std::string config_json;  ///< the text of config.json; empty if there is none
    std::optional<std::int64_t> iteration;
    std::string save_id;  ///< a UUID that the writer chose for this save, as PyTorch does in .metadata; else empty

    /// Files without tensors that a new checkpoint of the same format also gets (config.json, tokenizer files);
    /// relative paths.
    std::vector<std::filesystem::path> companions;

    /// Optimizer, scheduler and RNG files of transformers' Trainer, accelerate and Lightning, and a LoRA adapter beside
    /// the weights of its base model: copied byte for byte into a folder of the same kind, and to no other format.
    std::vector<std::filesystem::path> training_files;
    std::vector<std::filesystem::path> adapter_files;

    std::vector<std::string> notes;     ///< for the user, a line each: ignored files and why
    std::vector<std::string> warnings;  ///< the same about wrong content; all commands that read it print these

    std::shared_ptr<const torch::Value> common;  ///< Megatron's common state; null if there is none
    std::map<std::string, std::string, std::less<>> common_storages;  ///< of its tensors, by key
    std::shared_ptr<const torch::Value> planner_data;  ///< DCP's map from name to path; null if there is none

    std::shared_ptr<const RankFiles> rank_files;  ///< of Megatron's legacy format; null for others
    std::vector<RankValues> rank_values;          ///< of Megatron's legacy format, sorted by rank; empty for others
    std::shared_ptr<const hdf5::Tree> tree;       ///< of HDF5 files: groups and attributes; null for others

    std::vector<OpaqueTensor>
        opaque;  ///< tensors that are not in the catalogue: their blocks can be compared but not moved
};

/// Whether files of tensors may be missing, as in the folder of one host in `tpx migrate`.
enum class MissingFiles {
    refused,
    allowed  ///< for DCP and torch_dist; reading their tensors fails
};

/// Opens the checkpoint at `path` (a directory, or one file), recognized by its content. Throws Error if its format is
/// unknown, or if it is malformed: overlapping or missing boxes, duplicate names, truncated files.
Checkpoint open(const std::filesystem::path& path, MissingFiles missing = MissingFiles::refused);

/// Finds the payloads of those `pieces` (indices into the catalogue) that are in torch.save archives: sets their
/// offsets and strides. Throws Error if an archive does not contain exactly the tensor that the catalogue records.
void locate(Checkpoint& checkpoint, std::span<const std::uint32_t> pieces);

/// Answers a question (FileQuestion) that locate() asks about the file at `path`.
std::string answer_file_question(const std::filesystem::path& path, std::string_view question);

/// A tensor that shares the bytes of another one, as tied and sliced tensors do.
struct TensorView {
    std::string name;
    Shape shape;
    Strides strides;           ///< in elements
    std::uint32_t tensor = 0;  ///< the other one; both have the same dtype
    std::uint64_t begin = 0;   ///< its first element among those of the other one
};

/// What a new checkpoint will contain. Pieces have a box and a rank; the draft assigns their files and offsets. The
/// offset of a large piece is its preferred position within a block of the file system (file_blocks.hpp).
struct Content {
    std::vector<Tensor> tensors;
    std::vector<Piece> pieces;
    const Checkpoint* source =
        nullptr;    ///< objects, common state and companions come from it, if the format can store them
    int ranks = 1;  ///< of the new layout
    Layout layout;  ///< the new layout itself
    std::optional<std::uint64_t> shard_size;  ///< safetensors: largest file in bytes; unset: 5 GB
    Config args;                              ///< Megatron: entries of args to set, as the layout requires
    const Reading* reading = nullptr;         ///< meanings of the tensors, for Megatron's files and for `adam`
    std::optional<Adam> adam;                 ///< settings of optimizer state that comes from another framework
    std::optional<DType> cast;                ///< the dtype that values are cast to, as the user asked; unset: none
    bool split_by_holders = false;            ///< see Target; objects, which all ranks read, then have a separate file
    std::vector<TensorView> views;            ///< torch: additional tensors that share bytes with `tensors`
    std::optional<std::vector<int>> held;     ///< see Target
};

/// The bytes of a new checkpoint around its payloads. Adds to `notes`, if given, what the user should know.
Draft draft(Format format, const Content& content, std::vector<std::string>& notes);
Draft draft(Format format, const Content& content);

}  // namespace tpx::formats
