// SPDX-License-Identifier: Apache-2.0
#include "formats/quantized/quantize.hpp"

#include "formats/driver.hpp"
#include "formats/quantized/quantization_settings.hpp"
#include "formats/quantized/quantized.hpp"
#include "formats/settings/config_file.hpp"
#include "formats/state/roles.hpp"
#include "lib/core/counted.hpp"
#include "lib/core/error.hpp"
#include "lib/core/name_list.hpp"
#include "lib/layout/beyond_rules.hpp"

#include <algorithm>
#include <array>
#include <set>

namespace tpx::formats {
namespace {

constexpr Index block = 128;
constexpr std::string_view weight_end = ".weight";

/// Parts of the names of modules that are not quantized: they lose too much accuracy, or frameworks do not run them in
/// FP8.
constexpr std::array<std::string_view, 14> unquantized_modules{
    "embed",  "wte",    "wpe",    "lm_head", "shared_head", "eh_proj",   "mtp.fc",
    "router", "vision", "visual", "audio",   "speech",      "projector", "multi_modal"};

/// Weights that frameworks store or multiply as one; either all of them are quantized or none.
constexpr std::array<std::array<std::string_view, 3>, 3> fused_modules{
    {{"q_proj", "k_proj", "v_proj"}, {"gate_proj", "up_proj", ""}, {"q_a_proj", "kv_a_proj_with_mqa", ""}}};

/// Whether a part of the name is a number.
bool is_in_layer(std::string_view name) {
    for (std::size_t dot = name.find('.'); dot != name.npos; dot = name.find('.', dot + 1)) {
        const std::string_view part = name.substr(dot + 1, name.find('.', dot + 1) - dot - 1);
        if (!part.empty() && part.find_first_not_of("0123456789") == part.npos) return true;
    }
    return false;
}

/// The name of the module that owns a weight: its name without ".weight".
std::string module_of(const std::string& name) {
    return name.ends_with(weight_end) ? name.substr(0, name.size() - weight_end.size()) : name;
}

std::string_view last_part(std::string_view name) { return name.substr(name.rfind('.') + 1); }

bool is_real_matrix(const Tensor& tensor) {
    const bool real = tensor.dtype == DType::f32 || tensor.dtype == DType::bf16 || tensor.dtype == DType::f16;
    return real && tensor.shape.size() == 2 && tensor.name.ends_with(weight_end);
}

class Quantization {
public:
    explicit Quantization(Source& source) : source_{source}, catalogue_{source.checkpoint.catalogue} {
        const Config& config = source.checkpoint.config;
        if (const auto found = config.find("vocab_size"); found != config.end())
            if (const auto* size = std::get_if<std::int64_t>(&found->second)) vocabulary_ = *size;
        for (const Tensor* tensor : outer_tensors(source.reading, catalogue_.tensors)) outer_.insert(tensor->name);
    }

    std::string run() {
        check_source();
        find_unquantized();
        for (std::uint32_t t = 0; t < catalogue_.tensors.size(); ++t) add(t);
        if (quantized_ == 0)
            throw failure(
                "no weight can be quantized: rows and columns of a weight must be multiples of {}, and it must not be "
                "an "
                "embedding, output head or router",
                block);
        catalogue_.tensors = std::move(tensors_);
        catalogue_.pieces = std::move(pieces_);
        describe();
        return fmt::format("quantized {} to FP8 (one scale per {}x{} block){}", counted(quantized_, "weight"), block,
                           block, kept_.count() == 0 ? "" : fmt::format("; not quantized: {}", kept_.text()));
    }

private:
    void check_source() const {
        const Checkpoint& checkpoint = source_.checkpoint;
        if (!checkpoint.format->is_hugging_face || checkpoint.config_json.empty())
            throw failure(
                "not a Hugging Face folder with config.json; convert it first: tpx reshard CKPT OUT --to tp=1 --format "
                "safetensors");
        if (is_quantized(checkpoint)) throw failure("already quantized; dequantize it first with --dtype bf16");
        const auto type = checkpoint.config.find("model_type");
        if (type != checkpoint.config.end() && type->second == ConfigValue{std::string{"gpt2"}})
            throw failure("has Conv1D modules (gpt2), which frameworks cannot run in FP8");
        for (const Tensor& tensor : catalogue_.tensors)
            if (tensor.shape.size() == 3 && tensor.name.find("experts") != std::string::npos)
                throw failure(
                    "tensor '{}': contains several experts; only experts in tensors of their own can be quantized",
                    tensor.name);
        for (const Piece& piece : catalogue_.pieces) {
            const Tensor& tensor = catalogue_.tensors[piece.tensor];
            if (piece.box != whole(tensor.shape))
                throw failure("tensor '{}': is split; run tpx reshard --to tp=1 first, without this --dtype",
                              tensor.name);
            if (piece.strides != row_major(tensor.shape))
                throw failure(
                    "tensor '{}': is not stored row by row; run tpx reshard --to tp=1 first, without this --dtype",
                    tensor.name);
        }
    }

    bool is_unquantized(const Tensor& tensor) const {
        const Index rows = tensor.shape[0], columns = tensor.shape[1];
        return rows % block != 0 || columns % block != 0 || rows == 0 || columns == 0 ||
               (rows == vocabulary_ && !is_in_layer(tensor.name)) || last_part(module_of(tensor.name)) == "gate" ||
               outer_.contains(tensor.name) || std::ranges::any_of(unquantized_modules, [&](std::string_view part) {
                   return tensor.name.find(part) != std::string::npos;
               });
    }

    /// Finds the modules of matrices that are not quantized.
    void find_unquantized() {
        bool has_head = false;
        for (const Tensor& tensor : catalogue_.tensors) {
            has_head |= tensor.name.ends_with("lm_head.weight");
            if (is_real_matrix(tensor) && is_unquantized(tensor)) modules_.insert(module_of(tensor.name));
        }
        // A tied head is not stored, and must be named all the same: by default, frameworks would expect its scales.
        if (!has_head) modules_.insert("lm_head");
        for (const auto& fused : fused_modules) {
            for (const Tensor& tensor : catalogue_.tensors) {
                const std::string module = module_of(tensor.name);
                if (!modules_.contains(module) || std::ranges::count(fused, last_part(module)) == 0) continue;
                const std::string parent = module.substr(0, module.size() - last_part(module).size());
                for (const std::string_view sibling : fused) siblings_.insert(parent + std::string{sibling});
            }
        }
        for (const Tensor& tensor : catalogue_.tensors)
            if (siblings_.contains(module_of(tensor.name))) modules_.insert(module_of(tensor.name));
    }

    /// Adds tensor `t` to the output: unchanged, or as codes and scales.
    void add(std::uint32_t t) {
        const auto own = std::ranges::equal_range(catalogue_.pieces, t, {}, &Piece::tensor);
        const Tensor tensor = catalogue_.tensors[t];
        const bool kept = is_real_matrix(tensor) && modules_.contains(module_of(tensor.name));
        if (kept) kept_.add("'" + tensor.name + "'");
        if (!is_real_matrix(tensor) || kept || own.empty()) {
            for (const Piece& piece : own) add_piece(piece);
            tensors_.push_back(tensor);
            return;
        }
        ++quantized_;
        for (const Piece& piece : own) add_quantized(tensor, piece, false);
        tensors_.push_back({tensor.name, DType::f8_e4m3, tensor.shape});
        for (const Piece& piece : own) add_quantized(tensor, piece, true);
        tensors_.push_back({tensor.name + "_scale_inv", DType::f32, scales_shape(tensor.shape)});
    }

    static Shape scales_shape(const Shape& shape) { return {shape[0] / block, shape[1] / block}; }

    void add_piece(Piece piece) {
        piece.tensor = static_cast<std::uint32_t>(tensors_.size());
        pieces_.push_back(piece);
    }

    /// Adds a piece with the codes or scales of `tensor`, which `piece` contains whole.
    void add_quantized(const Tensor& tensor, const Piece& piece, bool is_scales) {
        auto quantized = std::make_shared<BlockQuantized>();
        *quantized = {{piece.file, piece.offset, tensor.dtype}, tensor.shape[0], tensor.shape[1], block, is_scales};
        Coding coding = Coding::of_quantization(std::move(quantized), fmt::format("tensor '{}'", tensor.name));
        const std::filesystem::path path = catalogue_.files[piece.file].path;
        catalogue_.files.push_back({path, coding.size, std::make_shared<const Coding>(std::move(coding))});
        Piece own = piece;
        own.file = static_cast<std::uint32_t>(catalogue_.files.size() - 1);
        own.offset = 0;
        own.box = whole(is_scales ? scales_shape(tensor.shape) : tensor.shape);
        own.strides = row_major(sizes(own.box));
        add_piece(own);
    }

    /// Records in the configuration which weights are quantized, and repeats the reading of names.
    void describe() {
        Checkpoint& checkpoint = source_.checkpoint;
        checkpoint.config_json = with_fp8_blocks(checkpoint.config_json, block, {modules_.begin(), modules_.end()});
        checkpoint.roles.clear();
        checkpoint.parameters.clear();
        Config config = source_.reading.config;
        for (const auto& [key, value] : parse_config_json(checkpoint.config_json)) {
            if (!key.starts_with("quantization_config.")) continue;
            checkpoint.config[key] = value;
            config[key] = value;
        }
        source_.reading = read_by_names(checkpoint, source_.families, config);
        source_.layout = detect_layout(catalogue_, source_.reading, cutting_of(checkpoint.format));
        source_.has_computed_values = true;
    }

    Source& source_;
    Catalogue& catalogue_;
    std::optional<Index> vocabulary_;
    std::set<std::string> outer_;     // tensors outside the language model
    std::set<std::string> siblings_;  // modules that engines fuse with an unquantized one
    std::set<std::string> modules_;   // that are not quantized
    std::vector<Tensor> tensors_;
    std::vector<Piece> pieces_;
    NameList kept_;
    std::uint64_t quantized_ = 0;
};

}  // namespace

std::string quantize(Source& source) { return Quantization{source}.run(); }

}  // namespace tpx::formats
