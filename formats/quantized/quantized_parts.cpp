// SPDX-License-Identifier: Apache-2.0
#include "formats/quantized/quantized_parts.hpp"

#include "formats/driver.hpp"
#include "formats/quantized/namings.hpp"
#include "formats/quantized/quantization_settings.hpp"
#include "formats/quantized/quantized.hpp"
#include "formats/quantized/quantized_shapes.hpp"
#include "lib/core/error.hpp"
#include "lib/core/file.hpp"

#include <fcntl.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <memory>
#include <span>
#include <string_view>
#include <unordered_map>

namespace tpx::formats {
namespace {

/// Finds the parts of quantized weights by their names.
class Finder {
public:
    /// Without `for_values`, only those tensors are read that give a shape.
    Finder(const Checkpoint& checkpoint, std::optional<DType> dtype, bool for_values = true)
        : catalogue_{checkpoint.catalogue},
          settings_{quantization_settings(checkpoint.config_json)},
          for_values_{for_values},
          has_raw_bytes_{checkpoint.format->is_hugging_face} {
        settings_.asked = dtype;
        for (std::uint32_t t = 0; t < catalogue_.tensors.size(); ++t) numbers_.emplace(catalogue_.tensors[t].name, t);
        for (std::uint32_t p = 0; p < catalogue_.pieces.size(); ++p) {
            pieces_.try_emplace(catalogue_.pieces[p].tensor, p);
        }
    }

    bool any() const {
        for (std::uint32_t t = 0; t < catalogue_.tensors.size(); ++t)
            if (naming_of(t) != nullptr) return true;
        return false;
    }

    std::vector<QuantizedTensor> all() {
        std::vector<QuantizedTensor> found;
        for (std::uint32_t t = 0; t < catalogue_.tensors.size(); ++t) {
            const Tensor& tensor = catalogue_.tensors[t];
            in_context([&] { return fmt::format("tensor '{}'", tensor.name); },
                       [&] {
                           if (const QuantizedNaming* naming = naming_of(t))
                               found.push_back(make(t, *naming));
                           else
                               check_lonely(tensor);
                       });
        }
        return found;
    }

private:
    const Tensor* find(std::string_view name) const {
        const auto found = numbers_.find(name);
        return found == numbers_.end() ? nullptr : &catalogue_.tensors[found->second];
    }

    /// What the names of all parts begin with, if the codes of `naming` may have `name`.
    static std::string stem_of(const QuantizedNaming& naming, std::string_view name) {
        return std::string{name.substr(0, name.size() - naming.codes.size())};
    }

    /// The scheme whose codes tensor `t` has, if its scales are there; null: none.
    const QuantizedNaming* naming_of(std::uint32_t t) const {
        const Tensor& tensor = catalogue_.tensors[t];
        for (const QuantizedNaming& naming : namings) {
            if (!tensor.name.ends_with(naming.codes) || !may_be_codes(naming, tensor.dtype)) continue;
            if (find(stem_of(naming, tensor.name) + std::string{naming.scales}) != nullptr) return &naming;
        }
        return nullptr;
    }

    /// Requires that a tensor without a partner needs none.
    void check_lonely(const Tensor& tensor) const {
        const std::string_view end = plain_scales.scales;
        const bool is_scale = tensor.name.ends_with(end) &&
                              find(std::string_view{tensor.name}.substr(0, tensor.name.size() - end.size())) != nullptr;
        const bool is_packed_scale =
            tensor.name.ends_with(end) &&
            find(tensor.name.substr(0, tensor.name.size() - end.size()) + std::string{packed.codes}) != nullptr;
        if (is_fp8(tensor.dtype) && !is_scale && !is_packed_scale)
            throw failure("is {} without scales: '{}' is missing", name(tensor.dtype),
                          tensor.name + std::string{block_scales.scales});
        for (const QuantizedNaming& naming : {mxfp4, packed, packed_words}) {
            if (tensor.name.ends_with(naming.codes) && may_be_codes(naming, tensor.dtype))
                throw failure("its scales '{}{}' are missing", stem_of(naming, tensor.name), naming.scales);
        }
        for (const QuantizedNaming& naming : {block_scales, mxfp4}) {
            if (!tensor.name.ends_with(naming.scales)) continue;
            const auto weight = tensor.name.substr(0, tensor.name.size() - naming.scales.size());
            const Tensor* partner = find(weight + std::string{naming.codes});
            if (partner == nullptr) throw failure("its weight '{}{}' is missing", weight, naming.codes);
            if (!may_be_codes(naming, partner->dtype))
                throw failure("is the scale of '{}', which is {}, not a quantized type", partner->name,
                              name(partner->dtype));
        }
    }

    /// The first piece of a stored tensor, which may be split.
    const Piece& piece_of(const Tensor& tensor) const {
        const auto found = pieces_.find(numbers_.at(tensor.name));
        if (found == pieces_.end()) throw failure("'{}' has no bytes", tensor.name);
        return catalogue_.pieces[found->second];
    }

    ScaledCodes::Part part_of(const Tensor& tensor, QuantizedTensor& made) const {
        const Piece& piece = piece_of(tensor);
        made.sources.push_back(piece);
        return {piece.file, piece.offset, tensor.dtype};
    }

    QuantizedTensor make(std::uint32_t t, const QuantizedNaming& naming) {
        const Tensor& codes = catalogue_.tensors[t];
        const std::string stem = stem_of(naming, codes.name);
        QuantizedTensor made{.name = stem + std::string{naming.weight}, .codes = t};
        const Tensor& scales = *find(stem + std::string{naming.scales});
        made.scaled.codes = part_of(codes, made);
        made.scaled.scales = part_of(scales, made);
        if (naming.codes == mxfp4.codes) {
            shape_mxfp4(codes, scales, settings_, made);
        } else if (naming.codes == packed_words.codes) {
            shape_packed_words(codes, scales, find(stem + ".qzeros"), settings_, made);
            set_word_zeros(stem, made);
            set_groups(stem, made);
        } else if (codes.dtype == DType::u8) {
            shape_fp4(codes, scales, settings_, made);
            set_scale_of_tensor(stem, scales, made);
        } else if (naming.codes == packed.codes) {
            shape_packed(codes, scales, shape_of_packed(made), settings_, made);
        } else {
            shape_plain(codes, scales, settings_, made);
            set_zeros(scales, made);
        }
        return made;
    }

    /// The scale of NVFP4 for all scales: compressed-tensors divides by it, ModelOpt multiplies.
    void set_scale_of_tensor(const std::string& stem, const Tensor& scales, QuantizedTensor& made) const {
        if (scales.dtype != DType::f8_e4m3) return;
        const Tensor* divisor = find(stem + "_global_scale");
        const Tensor* factor = find(stem + "_scale_2");
        const Tensor* stored = divisor != nullptr ? divisor : factor;
        if (stored == nullptr)
            throw failure("the scale of the whole tensor, '{0}_global_scale' or '{0}_scale_2', is missing", stem);
        if (stored->dtype != DType::f32 || volume(stored->shape) != 1)
            throw failure("'{}' is {} {}, expected one number of f32", stored->name, name(stored->dtype),
                          to_string(stored->shape));
        float number = 0;
        part_of(*stored, made);
        if (!for_values_) return;
        read_whole(*stored, std::as_writable_bytes(std::span{&number, 1}));
        (divisor != nullptr ? made.scaled.scale_divisor : made.scaled.scale_factor) = number;
    }

    /// Zeros of GPTQ and AWQ, whose shape was checked.
    void set_word_zeros(const std::string& stem, QuantizedTensor& made) const {
        if (const Tensor* zeros = find(stem + ".qzeros")) made.scaled.zeros = part_of(*zeros, made);
    }

    /// The group of each row, where GPTQ has sorted rows by activation.
    void set_groups(const std::string& stem, QuantizedTensor& made) const {
        const Tensor* stored = find(stem + ".g_idx");
        if (stored == nullptr) return;
        ScaledCodes& scaled = made.scaled;
        if (stored->dtype != DType::i32 || stored->shape != Shape{scaled.rows})
            throw failure("'{}' is {} {}, expected i32 [{}]", stored->name, name(stored->dtype),
                          to_string(stored->shape), scaled.rows);
        std::vector<std::int32_t> numbers(static_cast<std::size_t>(scaled.rows));
        part_of(*stored, made);
        if (!for_values_) return;
        read_whole(*stored, std::as_writable_bytes(std::span{numbers}));
        bool is_in_order = true;
        for (std::size_t r = 0; r < numbers.size(); ++r) {
            if (numbers[r] < 0 || numbers[r] >= scaled.scale_rows())
                throw failure("'{}' has group {} of {}", stored->name, numbers[r], scaled.scale_rows());
            is_in_order = is_in_order && numbers[r] == static_cast<Index>(r) / scaled.block_rows;
        }
        if (is_in_order) return;
        scaled.groups = std::make_shared<const std::vector<std::uint32_t>>(numbers.begin(), numbers.end());
        made.scheme += ", rows sorted by activation";
    }

    /// Zeros of compressed-tensors: i8 of the scales' shape.
    void set_zeros(const Tensor& scales, QuantizedTensor& made) const {
        const Tensor* zeros = find(made.name + "_zero_point");
        if (zeros == nullptr && !settings_.symmetric.value_or(true))
            throw failure("'{}_zero_point' is missing, but config.json declares asymmetric weights", made.name);
        if (zeros == nullptr) return;
        if (zeros->dtype != DType::i8 || zeros->shape != scales.shape)
            throw failure("'{}' is {} {}, expected i8 {}", zeros->name, name(zeros->dtype), to_string(zeros->shape),
                          to_string(scales.shape));
        made.scaled.zeros = part_of(*zeros, made);
        made.scheme += ", zero points";
    }

    /// The shape that is stored beside packed codes.
    Shape shape_of_packed(QuantizedTensor& made) const {
        if (find(made.name + "_zero_point") != nullptr || !settings_.symmetric.value_or(true) ||
            find(made.name + "_g_idx") != nullptr)
            throw failure("packed zero points and orders of activation are not dequantized");
        const Tensor* stored = find(made.name + "_shape");
        if (stored == nullptr) throw failure("'{}_shape' is missing", made.name);
        if (stored->shape != Shape{2} || (stored->dtype != DType::i64 && stored->dtype != DType::i32))
            throw failure("'{}' is {} {}, expected i64 [2]", stored->name, name(stored->dtype),
                          to_string(stored->shape));
        part_of(*stored, made);
        return read_shape(*stored);
    }

    Shape read_shape(const Tensor& stored) const {
        const auto size = static_cast<std::size_t>(itemsize(stored.dtype));
        std::array<std::byte, 16> bytes{};
        read_whole(stored, std::span{bytes}.first(2 * size));
        Shape shape;
        for (std::size_t k = 0; k < 2; ++k) {
            std::int64_t number = 0;
            std::memcpy(&number, bytes.data() + k * size, size);
            if (number < 0 || number > Index{1} << 40) throw failure("'{}' has {}", stored.name, number);
            shape.push_back(number);
        }
        if (checked_volume(shape) < 0) throw failure("'{}' is an impossible shape", stored.name);
        return shape;
    }

    /// Reads all of a tensor with at most one axis, whose parts may be in several pieces.
    void read_whole(const Tensor& stored, std::span<std::byte> into) const {
        const auto size = static_cast<std::size_t>(itemsize(stored.dtype));
        std::vector<bool> found(static_cast<std::size_t>(volume(stored.shape)), false);
        for (const Piece& piece :
             std::ranges::equal_range(catalogue_.pieces, numbers_.at(stored.name), {}, &Piece::tensor)) {
            if (!has_raw_bytes_ || stored.shape.size() > 1 || catalogue_.files[piece.file].coding)
                throw failure("'{}' cannot be read", stored.name);
            const auto first = static_cast<std::size_t>(piece.box.size() == 0 ? 0 : piece.box[0].begin);
            const auto count = static_cast<std::size_t>(volume(piece.box));
            const auto path = catalogue_.path(piece.file);
            read_at(open_file(path, O_RDONLY), piece.offset, into.subspan(first * size, count * size), path);
            std::fill_n(found.begin() + static_cast<std::ptrdiff_t>(first), count, true);
        }
        if (std::ranges::find(found, false) != found.end()) throw failure("a part of '{}' is missing", stored.name);
    }

    const Catalogue& catalogue_;
    QuantizationSettings settings_;
    bool for_values_ = true;
    bool has_raw_bytes_ = true;
    std::unordered_map<std::string_view, std::uint32_t> numbers_;
    std::unordered_map<std::uint32_t, std::uint32_t> pieces_;  // the first of each tensor
};

/// Whether names and dtypes allow any tensor to be quantized. A Finder, which says whether its scales are there, takes
/// half a microsecond per tensor.
bool any_may_be_codes(const Checkpoint& checkpoint) {
    return std::ranges::any_of(checkpoint.catalogue.tensors, [](const Tensor& tensor) {
        return std::ranges::any_of(namings, [&](const QuantizedNaming& naming) {
            return tensor.name.ends_with(naming.codes) && may_be_codes(naming, tensor.dtype);
        });
    });
}

}  // namespace

bool is_quantized(const Checkpoint& checkpoint) {
    if (!checkpoint.opaque.empty()) return true;
    return checkpoint.format->is_hugging_face && any_may_be_codes(checkpoint) && Finder{checkpoint, {}}.any();
}

std::vector<QuantizedTensor> quantized_tensors(const Checkpoint& checkpoint, std::optional<DType> dtype) {
    return checkpoint.format->is_hugging_face ? Finder{checkpoint, dtype}.all() : std::vector<QuantizedTensor>{};
}

std::vector<QuantizedTensor> placed_tensors(const Checkpoint& checkpoint) {
    if (!checkpoint.opaque.empty() || !any_may_be_codes(checkpoint)) return {};
    return Finder{checkpoint, {}, false}.all();
}

}  // namespace tpx::formats
