// SPDX-License-Identifier: Apache-2.0
#include "formats/quantize.hpp"

#include "formats/config_file.hpp"
#include "formats/driver.hpp"
#include "formats/quantization_settings.hpp"
#include "formats/quantized.hpp"
#include "formats/roles.hpp"
#include "lib/core/counted.hpp"
#include "lib/core/error.hpp"
#include "lib/core/name_list.hpp"

#include <algorithm>
#include <array>

namespace tpx::formats {
namespace {

constexpr Index block = 128;
constexpr std::string_view weight_end = ".weight";

/// Parts of names of what loses too much in FP8, or whose modules do not take it.
constexpr std::array<std::string_view, 10> kept_names{"embed", "lm_head", "router", "visual",    "vision",
                                                      "audio", "image",   "speech", "projector", "multi_modal"};

std::string_view last_part(std::string_view name) { return name.substr(name.rfind('.') + 1); }

/// Whether a part of the name is a number.
bool is_in_layer(std::string_view name) {
    for (std::size_t dot = name.find('.'); dot != name.npos; dot = name.find('.', dot + 1)) {
        const std::string_view part = name.substr(dot + 1, name.find('.', dot + 1) - dot - 1);
        if (!part.empty() && part.find_first_not_of("0123456789") == part.npos) return true;
    }
    return false;
}

/// The module that a weight is of.
std::string module_of(const std::string& name) {
    return name.ends_with(weight_end) ? name.substr(0, name.size() - weight_end.size()) : name;
}

std::optional<Index> number_of(const Config& config, std::string_view key) {
    for (const auto& [name, value] : config)
        if (last_part(name) == key)
            if (const auto* number = std::get_if<std::int64_t>(&value)) return *number;
    return std::nullopt;
}

class Quantization {
public:
    explicit Quantization(Source& source) : source_{source}, catalogue_{source.checkpoint.catalogue} {
        vocabulary_ = number_of(source.checkpoint.config, "vocab_size");
    }

    std::string run() {
        check_source();
        for (std::uint32_t t = 0; t < catalogue_.tensors.size(); ++t) add(t);
        if (quantized_ == 0)
            throw failure(
                "has no weight matrix to quantize: none has at least {} rows and columns, or all are embeddings, "
                "output heads or routers",
                block);
        catalogue_.tensors = std::move(tensors_);
        catalogue_.pieces = std::move(pieces_);
        describe();
        return fmt::format("quantized {} to FP8 with scales of blocks of {}x{}{}", counted(quantized_, "weight"), block,
                           block, kept_.count() == 0 ? "" : fmt::format(", but not {}", kept_.text()));
    }

private:
    void check_source() const {
        if (!source_.checkpoint.format->is_hugging_face || source_.checkpoint.config_json.empty())
            throw failure(
                "is no Hugging Face folder with a config.json; convert it to one first, without this --dtype");
        if (is_quantized(source_.checkpoint)) throw failure("is quantized already");
        for (const Piece& piece : catalogue_.pieces) {
            const Tensor& tensor = catalogue_.tensors[piece.tensor];
            if (piece.box != whole(tensor.shape) || piece.strides != row_major(tensor.shape))
                throw failure("tensor '{}': is split; run tpx reshard --to tp=1 first, without this --dtype",
                              tensor.name);
        }
    }

    /// Whether frameworks hold this tensor as a matrix, or as one of each expert, which they can multiply in FP8.
    bool is_matrix(const Tensor& tensor) const {
        const int axes = tensor.shape.size();
        const bool real = tensor.dtype == DType::f32 || tensor.dtype == DType::bf16 || tensor.dtype == DType::f16;
        const bool named =
            axes == 2 ? tensor.name.ends_with(weight_end) : tensor.name.find("experts") != std::string::npos;
        return real && (axes == 2 || axes == 3) && named;
    }

    bool is_kept(const Tensor& tensor) const {
        const Index rows = tensor.shape[tensor.shape.size() - 2];
        const Index columns = tensor.shape[tensor.shape.size() - 1];
        return rows < block || columns < block || (rows == vocabulary_ && !is_in_layer(tensor.name)) ||
               last_part(module_of(tensor.name)) == "gate" ||
               std::ranges::any_of(kept_names,
                                   [&](std::string_view part) { return tensor.name.find(part) != std::string::npos; });
    }

    /// Takes tensor `t` over, as codes and scales if it is to be quantized.
    void add(std::uint32_t t) {
        const auto own = std::ranges::equal_range(catalogue_.pieces, t, {}, &Piece::tensor);
        const Tensor tensor = catalogue_.tensors[t];
        if (!is_matrix(tensor) || is_kept(tensor) || own.empty()) {
            if (is_matrix(tensor)) keep(tensor.name);
            for (Piece piece : own) put(piece);
            tensors_.push_back(tensor);
            return;
        }
        ++quantized_;
        // Blocks begin anew with each expert. Their rows follow one another only where their number is one of blocks.
        const Index experts = tensor.shape.size() == 3 ? tensor.shape[0] : 1;
        const Shape scales = scales_shape(tensor.shape);
        for (const bool has_scales : {false, true}) {
            for (const Piece& piece : own)
                for (Index expert = 0; expert < experts; ++expert) put_made(tensor, piece, expert, has_scales, scales);
            tensors_.push_back(has_scales ? Tensor{tensor.name + "_scale_inv", DType::f32, scales}
                                          : Tensor{tensor.name, DType::f8_e4m3, tensor.shape});
        }
    }

    static Shape scales_shape(Shape shape) {
        for (int k = shape.size() - 2; k < shape.size(); ++k) shape[k] = (shape[k] + block - 1) / block;
        return shape;
    }

    void put(Piece piece) {
        piece.tensor = static_cast<std::uint32_t>(tensors_.size());
        pieces_.push_back(piece);
    }

    /// Adds the codes or scales of one matrix of `tensor`, which `piece` holds.
    void put_made(const Tensor& tensor, const Piece& piece, Index expert, bool has_scales, const Shape& scales) {
        const int axes = tensor.shape.size();
        const Index rows = tensor.shape[axes - 2], columns = tensor.shape[axes - 1];
        const auto first = static_cast<std::uint64_t>(expert * rows * columns * itemsize(tensor.dtype));
        auto made = std::make_shared<BlockQuantized>();
        *made = {{piece.file, piece.offset + first, tensor.dtype}, rows, columns, block, has_scales};
        Coding coding = Coding::of_quantization(std::move(made), fmt::format("tensor '{}'", tensor.name));
        const std::filesystem::path path = catalogue_.files[piece.file].path;
        catalogue_.files.push_back({path, coding.size, std::make_shared<const Coding>(std::move(coding))});
        Piece own = piece;
        own.file = static_cast<std::uint32_t>(catalogue_.files.size() - 1);
        own.offset = 0;
        own.box = whole(has_scales ? scales : tensor.shape);
        if (axes == 3) own.box[0] = {expert, expert + 1};
        own.strides = row_major(sizes(own.box));
        put(own);
    }

    void keep(const std::string& name) {
        modules_.push_back(module_of(name));
        kept_.add("'" + name + "'");
    }

    /// Says in the configuration what is quantized, and reads the names anew.
    void describe() {
        Checkpoint& checkpoint = source_.checkpoint;
        checkpoint.config_json = with_fp8_blocks(checkpoint.config_json, block, modules_);
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
    std::vector<Tensor> tensors_;
    std::vector<Piece> pieces_;
    std::vector<std::string> modules_;  // that are not quantized
    NameList kept_;
    std::uint64_t quantized_ = 0;
};

}  // namespace

std::string quantize(Source& source) { return Quantization{source}.run(); }

}  // namespace tpx::formats
