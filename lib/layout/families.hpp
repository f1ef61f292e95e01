// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "lib/layout/family.hpp"
#include "lib/layout/matchable_names.hpp"

#include <cstddef>
#include <functional>
#include <iterator>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace tpx {

/// What is known of a family before its whole file is read.
struct FamilyHead {
    std::string name;
    bool told = false;                                       ///< see Family
    std::map<std::string, std::vector<std::string>> detect;  ///< see Family
    std::span<const std::uint32_t> name_hashes;              ///< see hash_rule_names(); empty: unknown

    /// Whether models of this family have this model_type in their config.json.
    bool has_type(std::string_view type) const;

    /// False only if its rules match none of these names.
    bool may_match(const MatchableNames& stored) const { return name_hashes.empty() || stored.may_match(name_hashes); }
};

/// A list of families, each of which is read when it is first used: a run uses two or three of a hundred. Copies are
/// cheap and share what was read. Threads may use one at the same time.
class Families {
public:
    /// Visits all families and reads them.
    class Iterator {
    public:
        using value_type = Family;
        using difference_type = std::ptrdiff_t;

        Iterator() = default;
        Iterator(const Families& families, std::size_t number) : families_{&families}, number_{number} {}
        const Family& operator*() const { return (*families_)[number_]; }
        const Family* operator->() const { return &**this; }
        Iterator& operator++() { return ++number_, *this; }
        Iterator operator++(int) {
            const Iterator old = *this;
            ++*this;
            return old;
        }
        bool operator==(const Iterator& other) const { return number_ == other.number_; }

    private:
        const Families* families_ = nullptr;
        std::size_t number_ = 0;
    };

    /// How a family is read.
    using Reader = std::function<Family()>;

    Families() = default;  ///< none
    explicit Families(std::vector<Family> families);
    Families(std::vector<FamilyHead> heads, std::vector<Reader> readers);  ///< both are of the same length

    std::size_t size() const { return entries_.size(); }
    const FamilyHead& head(std::size_t number) const;
    /// Throws Error "FILE: line N: cause".
    const Family& operator[](std::size_t number) const;
    /// The first family whose models have this model_type.
    std::optional<std::size_t> of_type(std::string_view type) const;
    bool has_type(std::string_view type) const { return of_type(type).has_value(); }
    /// A list of that family alone.
    Families only(std::size_t number) const;
    /// The family of this name.
    std::optional<std::size_t> find(std::string_view name) const;

    Iterator begin() const { return {*this, 0}; }
    Iterator end() const { return {*this, size()}; }

private:
    class Entry;
    std::vector<std::shared_ptr<Entry>> entries_;
};

/// Families from files that may extend one another, in any order. Of several families with one name, the last counts;
/// it may extend the one before. Fragments, which exist only to be extended, are not in the result. The texts of proven
/// sources must outlive the result. Throws Error "FILE: line N: cause" if a source that is not proven is invalid.
Families parse_families(std::span<const FamilySource> sources);

}  // namespace tpx
