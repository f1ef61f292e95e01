// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "lib/core/catalogue.hpp"
#include "lib/layout/config.hpp"
#include "lib/layout/family.hpp"

#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace tpx {

/// The factor of the widened family for each letter that the outer model uses in a part.
using Letters = std::map<char, char>;

/// `axes` with the factors of the widened family.
std::vector<Axis> renamed(std::vector<Axis> axes, const Letters& letters);

/// The axes a, b, and so on.
std::vector<Axis> declared_axes(std::size_t count);

/// Maps the factors of parts outside the language model to new factors of the family: one for each size, and more if a
/// tensor has several factors of that size.
class OuterLetters {
public:
    /// Adds the factors that it finds to `family`.
    OuterLetters(const OuterModel& outer, const Config& config, Family& family)
        : outer_{outer}, config_{config}, family_{family} {}

    /// The factors of `tensor`. `shape` gives the lengths of its `axes`; a '+' among them stands for `parts`. Sizes
    /// without a formula follow from the shape. Nothing if one does not follow, or if no letter is left. Throws Error
    /// if the shape does not fit the axes.
    std::optional<Letters> of(const Tensor& tensor, const Shape& shape, const std::vector<Axis>& axes,
                              const std::vector<const OuterTensor*>& parts);

    /// The first alternative of `formula` that has a value; `formula` if none has.
    std::string known_alternative(std::string_view formula) const;

private:
    /// What one tensor needs: its letters so far, and how many of them have each size.
    struct Finding {
        Letters letters;
        std::map<std::string, int> seen;
    };
    bool add(Finding& found, char letter, const std::string& size);
    std::optional<char> letter_of(const std::string& size, int number);
    bool add_parts(Finding& found, Index length, std::string unknown, const std::vector<Axis>& axes,
                   const std::vector<const OuterTensor*>& parts, const Tensor& tensor);
    bool add_axis(Finding& found, Index length, std::size_t k, const std::vector<Axis>& axes,
                  const std::vector<const OuterTensor*>& parts, const Tensor& tensor);

    const OuterModel& outer_;
    const Config& config_;
    Family& family_;
    std::map<std::pair<std::string, int>, int> made_;
};

}  // namespace tpx
