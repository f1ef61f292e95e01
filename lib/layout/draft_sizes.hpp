// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "lib/core/interval.hpp"
#include "lib/layout/config.hpp"

#include <map>
#include <string>
#include <string_view>

namespace tpx {

/// The factors of a family that is drafted: those that a configuration speaks of, and one for each other size.
class DraftSizes {
public:
    explicit DraftSizes(const Config& config);

    /// Whether `letter` is a factor of the configuration with this size.
    bool is(char letter, Index size) const;

    /// The factor of a feed-forward layer of this size, or 0.
    char feed_forward(Index size) const;

    /// A factor of `size` that is not in `used`, to which it is added. The first axis of a tensor may be a number of
    /// experts, whatever else has that size.
    std::string axis(Index size, int number, std::string& used);

    /// The same for an axis that tensor parallelism cuts; that of heads is "(g m d)" or "(n k)", the cut factor first.
    std::string cut_axis(Index size, std::string_view module, std::string& used);

    /// The lines of the section [dims], of factors that were asked for.
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
