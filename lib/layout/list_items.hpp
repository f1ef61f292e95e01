// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "lib/layout/config.hpp"

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace tpx {

/// The items of the lists of a configuration. Each list is split once, because the conditions of thousands of layers
/// index it. Later changes of the configuration have no effect.
class ListItems {
public:
    ListItems() = default;
    explicit ListItems(const Config& config);

    /// The items of the list under `key`: numbers if all items are numbers, else words. Null if there is no such list.
    const std::vector<ConfigValue>* find(std::string_view key) const;

private:
    std::map<std::string, std::vector<ConfigValue>, std::less<>> lists_;
};

/// The items of a list that is stored as text, such as "0,1,1"; see ListItems::find().
std::vector<ConfigValue> split_list(std::string_view text);

/// The value of "LIST.N": item N, counted from 0, of the list LIST of a configuration. Nothing if there is no such item
/// or it is not a whole number.
std::optional<std::int64_t> item_of_list(const Config& config, std::string_view word);

}  // namespace tpx
