// SPDX-License-Identifier: Apache-2.0
#include "lib/layout/families.hpp"

#include "lib/core/error.hpp"
#include "lib/layout/family_file.hpp"

#include <algorithm>
#include <mutex>
#include <optional>
#include <utility>

namespace tpx {
namespace {

FamilyHead head_of(const Family& family) { return {family.name, family.told, family.detect, {}}; }

/// Files of rules that may extend one another. Proven files are read when they are first needed.
class Library {
public:
    explicit Library(std::span<const FamilySource> sources) {
        for (const FamilySource& source : sources) {
            if (source.proven)
                files_.push_back({source, parse_family_head(source), {}});
            else
                files_.push_back({source, {}, parse_family_file(source)});
            inherit_detection(files_.size() - 1);
        }
    }

    std::size_t size() const { return files_.size(); }

    /// Whether a file is the last of its name and describes a family of its own.
    bool counts(std::size_t number) const {
        const WrittenFamily& start = files_[number].start();
        return !start.fragment && number == *find(start.own.name, files_.size());
    }

    FamilyHead head(std::size_t number) const {
        FamilyHead head = head_of(files_[number].start().own);
        if (!may_be_invalid(number))
            head.name_hashes = files_[number].source.name_hashes;  // else a user's file may have added names
        return head;
    }

    /// Whether a file is not proven, or extends such a file, directly or not.
    bool may_be_invalid(std::size_t number) const {
        std::vector<std::size_t> reached{number};
        for (std::size_t k = 0; k < reached.size(); ++k) {
            const File& file = files_[reached[k]];
            if (!file.source.proven) return true;
            for (const std::string& name : file.start().extends) {
                const auto base = find(name, reached[k]);
                if (base && std::ranges::count(reached, *base) == 0) reached.push_back(*base);
            }
        }
        return false;
    }

    Family family(std::size_t number) {
        const std::lock_guard alone{reading_};
        return build_family(complete(number, {}));
    }

private:
    struct File {
        FamilySource source;
        WrittenFamily head;                  ///< if the source is proven
        std::optional<WrittenFamily> whole;  ///< once it was read

        const WrittenFamily& start() const { return whole ? *whole : head; }
    };

    /// The last file of this name; if file `other` has this name too, the last one before it.
    std::optional<std::size_t> find(std::string_view name, std::size_t other) const {
        const bool is_own = other < files_.size() && files_[other].start().own.name == name;
        for (std::size_t number = is_own ? other : files_.size(); number-- > 0;) {
            if (files_[number].start().own.name == name) return number;
        }
        return std::nullopt;
    }

    /// Inherits detect, told and remote_code for a file that extends the family of its own name; its own detect
    /// replaces the inherited one.
    void inherit_detection(std::size_t number) {
        if (!files_[number].whole) return;
        WrittenFamily& file = *files_[number].whole;
        const auto extended = find(file.own.name, number);
        if (!extended || std::ranges::count(file.extends, file.own.name) == 0) return;
        const Family& base = files_[*extended].start().own;
        if (file.own.detect.empty()) file.own.detect = base.detect;
        file.own.told |= base.told;
        file.own.remote_code |= base.remote_code;
    }

    /// A file with everything that it extends; `open` contains the files that are being completed.
    WrittenFamily complete(std::size_t number, std::vector<std::size_t> open) {
        File& file = files_[number];
        if (!file.whole) file.whole = parse_family_file(file.source);
        return in_context([&] { return file.whole->source; },
                          [&] {
                              if (std::ranges::count(open, number) > 0) throw failure("it extends itself");
                              open.push_back(number);
                              WrittenFamily sum{.source = file.whole->source, .own = {.name = file.whole->own.name}};
                              for (const std::string& name : file.whole->extends) {
                                  const auto base = find(name, number);
                                  if (!base) throw failure("it extends the unknown family '{}'", name);
                                  add_family(sum, complete(*base, open));
                              }
                              add_family(sum, *file.whole);
                              return sum;
                          });
    }

    std::vector<File> files_;
    std::mutex reading_;
};

}  // namespace

/// A family, read at most once.
class Families::Entry {
public:
    Entry(FamilyHead known, Reader reader) : head{std::move(known)}, read_{std::move(reader)} {}

    const Family& get() {
        std::call_once(once_, [&] { family_ = read_(); });
        return *family_;
    }

    const FamilyHead head;

private:
    Reader read_;
    std::once_flag once_;
    std::optional<Family> family_;
};

bool FamilyHead::has_type(std::string_view type) const {
    const auto types = detect.find("hf");
    return types != detect.end() && std::ranges::find(types->second, type) != types->second.end();
}

Families::Families(std::vector<FamilyHead> heads, std::vector<Reader> readers) {
    for (std::size_t number = 0; number < heads.size(); ++number)
        entries_.push_back(std::make_shared<Entry>(std::move(heads[number]), std::move(readers[number])));
}

Families::Families(std::vector<Family> families) {
    for (Family& family : families) {
        FamilyHead head = head_of(family);
        entries_.push_back(std::make_shared<Entry>(std::move(head), [made = std::move(family)] { return made; }));
    }
}

const FamilyHead& Families::head(std::size_t number) const { return entries_[number]->head; }

const Family& Families::operator[](std::size_t number) const { return entries_[number]->get(); }

std::optional<std::size_t> Families::of_type(std::string_view type) const {
    for (std::size_t number = 0; number < size(); ++number)
        if (head(number).has_type(type)) return number;
    return std::nullopt;
}

Families Families::only(std::size_t number) const {
    Families one;
    one.entries_.push_back(entries_[number]);
    return one;
}

std::optional<std::size_t> Families::find(std::string_view name) const {
    for (std::size_t number = 0; number < size(); ++number)
        if (head(number).name == name) return number;
    return std::nullopt;
}

Families parse_families(std::span<const FamilySource> sources) {
    const auto library = std::make_shared<Library>(sources);
    std::vector<FamilyHead> heads;
    std::vector<Families::Reader> readers;
    std::vector<std::size_t> doubtful;
    for (std::size_t number = 0; number < library->size(); ++number) {
        if (!library->counts(number)) continue;
        if (library->may_be_invalid(number)) doubtful.push_back(heads.size());
        heads.push_back(library->head(number));
        readers.push_back([library, number] { return library->family(number); });
    }
    Families families{std::move(heads), std::move(readers)};
    // A user's file may be invalid, or may make a family that extends it invalid. That is reported even if the family
    // is not used.
    for (const std::size_t number : doubtful) families[number];
    return families;
}

}  // namespace tpx
