// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "lib/core/interval.hpp"
#include "lib/layout/config.hpp"

#include <map>
#include <string>
#include <string_view>

namespace tpx {

/// The factors of a drafted family: those whose sizes the configuration contains, and a new one for each other size.
class DraftSizes {
public:
    explicit DraftSizes(const Config& config);

    /// Whether the factor `letter` exists and has this size.
    bool is(char letter, Index size) const;

    /// The factor of a feed-forward layer of this size; 0 if there is none.
    char feed_forward(Index size) const;

    /// A factor of this size for axis `number` of a tensor. Factors in `used` are not considered, and the result is
    /// added to `used`. If several factors have the size, the first axis prefers the number of experts, then the
    /// vocabulary.
    std::string axis(Index size, int number, std::string& used);

    /// The same for an axis that tensor parallelism splits. An axis of heads is "(g m d)" or "(n k)", with the split
    /// factor first.
    std::string cut_axis(Index size, std::string_view module, std::string& used);

    /// The lines of the section [dims], for all factors that axis() and split axes use.
    std::string toml() const;

private:
    struct Factor {
        Index size = 0;
        std::string formula;
    };

    void define(char letter, std::initializer_list<const char*> keys);
    std::string use(std::string letters, std::string& used);
    char spare(Index size, const std::string& used);

    const Config& config_;
    std::string nested_;  ///< "text_config." where sizes are nested
    std::map<char, Factor> factors_;
    std::string asked_;
};

}  // namespace tpx
