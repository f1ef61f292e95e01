// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "formats/checkpoint.hpp"
#include "lib/layout/shard_map.hpp"

#include <cstdint>
#include <filesystem>
#include <functional>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace tpx {
struct ExpressedState;
class Families;
struct ParameterDifference;
}  // namespace tpx

namespace tpx::formats {

struct RecognizedPath;
struct Source;
struct Target;

/// Receives the path and the text of a value that is not a tensor.
using AddValue = std::function<void(const std::string& path, std::string text)>;

/// The start of a file, by which drivers recognize it.
struct FileStart {
    std::filesystem::path path;
    std::string name;   ///< the last part of `path`
    std::string bytes;  ///< the first 16, or all of a shorter file
    std::uint64_t size = 0;
};

/// Which sources a format is written from.
enum class WritableFrom : std::uint8_t { nothing, any, own_framework };

/// Where a format stores values that are not tensors: args, schedulers, counters, param_groups, metadata.
enum class ValueStorage : std::uint8_t {
    nothing,
    headers,            ///< text in the header of each file
    metadata,           ///< keys and values at the start of the file
    attributes,         ///< attributes of groups and datasets
    model_attributes,   ///< attributes with the configuration of the model
    one_file,           ///< the dict, saved by torch.save, that also contains the tensors
    rank_files,         ///< a torch.save file for each rank
    engine_files,       ///< torch.save files for the model and for the optimizer, for each rank
    objects,            ///< byte entries, each with a name
    common_and_objects  ///< a common file, and byte entries
};

/// How a format names the optimizer state of parameter P.
enum class StateNames : std::uint8_t {
    as_in_source,
    by_torch,      ///< optimizer.state.P.exp_avg, and P itself is the master weight
    by_parameter,  ///< optimizer.state.P.exp_avg for state that the source numbers
    by_folder      ///< P/exp_avg, and P/fp32 is the master weight
};

/// Everything tpx knows about one checkpoint format. Each format has a folder, which defines its driver; registry.cpp
/// lists the drivers. Code outside these folders does not name formats; it uses the driver.
struct Driver {
    std::string_view name = {};   ///< the value of --format
    std::string_view title = {};  ///< one line for the map of formats
    /// Which framework writes the format. Formats of one framework can be converted to each other without rules.
    std::string_view framework = {};
    std::span<const std::string_view> aliases = {};  ///< other values of --format

    WritableFrom written = WritableFrom::nothing;
    bool knows_optimizer = false;  ///< moments, masters and steps are known as such, and kept
    bool keeps_values = false;     ///< values that are not tensors are shown and kept
    bool is_resharded = false;     ///< the output can be split across ranks

    // What its files are.
    bool is_one_file = false;         ///< each checkpoint is one file, not a folder
    std::string_view file_name = {};  ///< name of that file in the draft
    bool allows_other_files = true;   ///< its folder may contain tpx's files, and hosts may each store a part of it
    bool is_hugging_face = false;     ///< transformers loads it: config.json must be complete and fit the names
    bool weights_only = false;        ///< it has no place for optimizer state
    bool may_omit_config = false;     ///< some of its files do not contain the model configuration
    bool aligns_payloads = false;     ///< drafts put large payloads at their preferred positions in blocks, see Content
    bool splits_by_holders = false;   ///< a rank may write a file for each set of ranks that hold the same pieces
    ValueStorage values = ValueStorage::nothing;

    // How its tensors are named and split.
    std::string_view dialect = {};        ///< the names that its framework uses; empty: any
    std::string_view model_dialect = {};  ///< names for plan --model; empty: --model is not supported
    StateNames state_names = StateNames::as_in_source;
    Cutting cutting = {};
    bool has_args = false;             ///< it stores Megatron's args, which determine names, padding and stages
    bool has_rank_names = false;       ///< each rank has names of its own for its part of a tensor
    bool has_module_names = false;     ///< names are those of the modules in memory
    bool may_wrap_names = false;       ///< names may include wrappers of the model: DDP, FSDP, torch.compile, Lightning
    bool keeps_masters = false;        ///< it stores weights beside their master weights
    bool has_param_groups = false;     ///< tensors are split by the optimizer's parameter groups, not by a ShardMap
    bool has_flat_partitions = false;  ///< optimizer state of several parameters is in one buffer of each rank

    /// Whether values of any Python type can be stored.
    constexpr bool stores_any_value() const {
        return values == ValueStorage::one_file || values == ValueStorage::objects;
    }

    /// Drivers are asked in ascending order what a path is: the more specific its files, the earlier.
    int precedence = 0;
    /// Recognizes a file; nothing if it is not of this format.
    std::optional<RecognizedPath> (*recognize_file)(const FileStart& file) = nullptr;
    /// Recognizes a folder, without those below it; nothing if it is not of this format.
    std::optional<RecognizedPath> (*recognize_folder)(const std::filesystem::path& folder) = nullptr;
    /// The folder of the checkpoint that `root` points to; empty if it is not such a root.
    std::filesystem::path (*checkpoint_of_root)(const std::filesystem::path& root) = nullptr;
    /// A folder that no driver recognizes is of this format, and called `folder_description`, if one of its files has
    /// one of these endings.
    std::span<const std::string_view> endings = {};
    std::string_view folder_description = {};

    Checkpoint (*open)(const std::filesystem::path& path, MissingFiles missing) = nullptr;
    /// Completes an opened checkpoint once the rules of model families and the user's configuration are known.
    void (*complete)(Checkpoint& checkpoint, const Families& families, const Config& config) = nullptr;
    /// Replaces quantized tensors, which the format stores as blocks, with tensors of `dtype`.
    void (*dequantize)(Checkpoint& checkpoint, DType dtype) = nullptr;
    /// How many ranks wrote files into `folder`.
    int (*count_writers)(const std::filesystem::path& folder) = nullptr;

    /// Throws Error if the source cannot be converted to the target.
    void (*check_target)(const Source& source, const Target& target) = nullptr;
    /// Throws Error if the state of a model cannot be stored in this layout.
    void (*check_model_layout)(const Layout& layout) = nullptr;
    /// Why a tensor cannot have this name; empty if it can.
    std::string_view (*reject_name)(std::string_view name) = nullptr;
    /// Whether this format cannot store a tensor of this name from another format of its framework.
    bool (*cannot_store)(std::string_view name) = nullptr;
    /// The bytes around the payloads of `content`; null for formats that are only read. Adds to `notes`.
    Draft (*draft)(const Content& content, std::vector<std::string>& notes) = nullptr;

    // Functions of the source's driver in conversions. Null: nothing to do.

    /// The settings of the optimizer; unset if it is not like Adam. Throws Error if they are malformed.
    std::optional<Adam> (*adam)(const Source& source) = nullptr;
    /// Throws Error if parameters may be missing that the target's framework needs. Adds to `notes`.
    void (*check_complete)(const Source& source, const Target& target, std::vector<std::string>& notes) = nullptr;
    /// Whether weights are stored as their masters only.
    bool (*stores_masters_only)(const Checkpoint& checkpoint) = nullptr;
    /// Sets the training dtype of each parameter in `weights`, which are stored as master weights only.
    void (*set_weight_dtypes)(const Checkpoint& checkpoint, std::map<std::string, DType>& weights) = nullptr;
    /// The tensors whose bytes are part of another tensor's, by tensor number.
    std::map<std::uint32_t, TensorView> (*find_views)(const Checkpoint& checkpoint) = nullptr;
    /// Adds to `notes` which values of the source, such as attributes, the target does not have. `renames`: whether the
    /// tensors get names of another framework.
    void (*note_dropped)(const Source& source, const Target& target, bool renames,
                         std::vector<std::string>& notes) = nullptr;
    /// Calls `add` for the non-tensor values in tensor files. Throws Error if one is malformed.
    void (*add_values)(const Checkpoint& checkpoint, const AddValue& add) = nullptr;

    // Functions of the target's driver in conversions. Null: nothing to do.

    /// Sets what the layout implies. Throws Error (usage) for a layout that checkpoints of this format cannot have.
    void (*complete_target)(Target& target) = nullptr;
    /// Restores the state of this format that `source`, a checkpoint of another format, kept from an earlier
    /// conversion.
    void (*restore)(Checkpoint& source) = nullptr;
    /// Sets the settings in `config` that determine names and padding of the new tensors, and renames the optimizer
    /// state of `source` accordingly.
    void (*complete_config)(Source& source, const Target& target, bool renames, Config& config) = nullptr;
    /// Adapts the optimizer state of tensors that keep their names to the target's optimizer. Adds to `notes`.
    void (*adapt_states)(ExpressedState& expressed, const Config& config, std::optional<DType> dtype,
                         std::vector<std::string>& notes) = nullptr;
    /// Returns the Content::args of the new checkpoint. `has_adam`: whether settings of an optimizer come from another
    /// framework. Throws Error if the framework cannot build the model.
    Config (*make_args)(const Source& source, const Target& target, const ExpressedState& expressed, bool renames,
                        bool has_adam, const Config& config) = nullptr;
    /// Adds to `notes` which state is created for ranks because the source has none for them.
    void (*note_new_state)(const Source& source, const Layout& layout, std::vector<std::string>& notes) = nullptr;
    /// The difference between the parameters of the model that the framework builds from `config` and the tensors of
    /// `expressed`.
    ParameterDifference (*model_difference)(const ExpressedState& expressed, const Config& config) = nullptr;

    // Functions of both drivers: what each rank has in memory.

    /// The optimizer state (with zero=3, also the weights) of each rank of `content.layout` under ZeRO. Null if the
    /// framework splits it evenly. Throws Error if it cannot be derived from `args` and the rules.
    std::vector<Piece> (*state_shares)(const Content& content, const Config& args,
                                       std::span<const Role> roles) = nullptr;
    /// `pieces` and a copy of each for every other rank of `layout` that has it in memory.
    std::vector<Piece> (*with_replicas)(std::span<const Tensor> tensors, std::span<const Piece> pieces,
                                        std::span<const Role> roles, const Layout& layout) = nullptr;
};

/// Whether a format stores Megatron's tensors whole, under one name for all ranks, with ShardedObjects beside them.
constexpr bool stores_megatron_tensors(const Driver& driver) { return driver.has_args && !driver.has_rank_names; }

}  // namespace tpx::formats
