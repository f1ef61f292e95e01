// SPDX-License-Identifier: Apache-2.0
#include "cmd/verify/compare_values.hpp"

#include "cmd/verify/compare_groups.hpp"
#include "cmd/verify/compare_settings.hpp"
#include "formats/driver.hpp"
#include "formats/values/training_values.hpp"
#include "formats/values/value_paths.hpp"
#include "lib/core/error.hpp"
#include "lib/core/in_path.hpp"

#include <algorithm>
#include <map>
#include <nlohmann/json.hpp>
#include <set>
#include <tuple>
#include <utility>

namespace tpx::cli {
namespace {

/// The values of a checkpoint, by role and path.
struct Values {
    using Key = std::pair<std::string, std::string>;  // role and path

    Values(const formats::TrainingValues& all, formats::Format of) : format{of} {
        for (const formats::TrainingValue& value : all.values) {
            values[{value.role, value.path}][value.place] = value.text;
            roles.insert(value.role);
            keys.insert(value.path.substr(0, value.path.find('.')));
        }
        has_groups = !all.groups.empty();
    }

    std::map<Key, std::map<std::string, std::string>> values;  // by place
    std::set<std::string> roles;
    std::set<std::string> keys;  // the first key of each path
    bool has_groups = false;     // parameter groups
    formats::Format format;
};

class ValueComparer {
public:
    ValueComparer(const Values& a, const Values& b, const std::function<bool(const std::string&)>& ignored,
                  bool other_layout, Comparison& result)
        : a_{a}, b_{b}, ignored_{ignored}, other_layout_{other_layout}, result_{result} {}

    void run() {
        note_descriptions();
        note_omitted_config();
        note_engine_config();
        std::set<Values::Key> keys;
        for (const Values* side : {&a_, &b_})
            for (const auto& [key, texts] : side->values) keys.insert(key);
        for (const Values::Key& key : keys) {
            if (key.first == "step") continue;  // see compare_steps
            if (is_of_groups(key) && !ignored_(key.first)) continue;
            const auto a = a_.values.find(key);
            const auto b = b_.values.find(key);
            if (ignored_(key.first)) {
                ++result_.ignored[key.first];
            } else if (a == a_.values.end() || b == b_.values.end()) {
                const bool in_a = b == b_.values.end();
                lacks(key, in_a ? a->second : b->second, in_a ? 'B' : 'A');
            } else {
                compare_places(key, a->second, b->second);
            }
        }
        for (const auto& [role, places] : unmatched_) add_unmatched(role, places);
    }

private:
    /// A model may be described twice: by Megatron's args and by a config.json, of which one was made from the other.
    /// If both sides have the same one, the other adds nothing.
    void note_descriptions() {
        for (const auto& [one, other] : {std::pair{"args", "config"}, std::pair{"config", "args"}}) {
            if (!a_.keys.contains(one) || !b_.keys.contains(one) || a_.keys.contains(other) == b_.keys.contains(other))
                continue;
            not_compared_.insert(other);
            result_.notes.push_back(fmt::format("{} also has {}; compared only {}, which both have",
                                                a_.keys.contains(other) ? "A" : "B",
                                                std::string_view{other} == "config" ? "config.json" : "Megatron's args",
                                                std::string_view{one} == "config" ? "config.json" : "Megatron's args"));
        }
    }

    /// Whether `key` is compared group by group.
    bool is_of_groups(const Values::Key& key) const {
        return key.first == "settings" && key.second.starts_with("param_groups.") && a_.has_groups && b_.has_groups;
    }

    /// Keras stores the model's configuration in archives and in its older files, but cannot store it in weights files.
    void note_omitted_config() {
        if (!a_.format->may_omit_config || !b_.format->may_omit_config ||
            a_.keys.contains("config") == b_.keys.contains("config"))
            return;
        not_compared_.insert("config");
        if (ignored_("args")) return;
        result_.notes.push_back(
            fmt::format("not compared: the model's configuration, which only {} stores; Keras weights files cannot "
                        "contain it",
                        a_.keys.contains("config") ? 'A' : 'B'));
    }

    /// DeepSpeed stores its engine's configuration, which a conversion to another framework drops.
    void note_engine_config() {
        const auto is_own = [](const Values& side) {
            return side.format->values == formats::ValueStorage::engine_files;
        };
        if (is_own(a_) && is_own(b_)) return note_missing_clip();
        const Values& one = a_.keys.contains("ds_config") ? a_ : b_;
        const Values& other = &one == &a_ ? b_ : a_;
        if (!is_own(one) || is_own(other) || !one.keys.contains("ds_config") || other.keys.contains("ds_config"))
            return;
        not_compared_.insert({"ds_config", "clip_grad"});
        if (ignored_("args")) return;
        result_.notes.push_back(
            fmt::format("not compared: the configuration of DeepSpeed's engine (ds_config, clip_grad), which only {} "
                        "stores",
                        &one == &a_ ? 'A' : 'B'));
    }

    /// ZeRO 3 stores the norm that gradients are clipped to in ds_config only, other stages also in clip_grad.
    void note_missing_clip() {
        if (a_.keys.contains("clip_grad") == b_.keys.contains("clip_grad")) return;
        const Values& one = a_.keys.contains("clip_grad") ? a_ : b_;
        const Values& other = &one == &a_ ? b_ : a_;
        const auto text = [](const Values& side, std::string_view name) {
            for (const auto& [key, texts] : side.values)
                if (key.second == name) return texts.begin()->second;
            return std::string{};
        };
        if (text(one, "clip_grad") != text(other, "ds_config.gradient_clipping")) return;
        not_compared_.insert("clip_grad");
        result_.notes.push_back(fmt::format(
            "not compared: clip_grad, which only {} has; it equals ds_config.gradient_clipping of the other",
            &one == &a_ ? 'A' : 'B'));
    }

    void lacks(const Values::Key& key, const std::map<std::string, std::string>& texts, char lacking) {
        const auto says_nothing = [&](const auto& entry) { return formats::is_default(key.second, entry.second); };
        if (std::ranges::all_of(texts, says_nothing)) return;
        const Values& other = lacking == 'A' ? a_ : b_;
        const std::string& text = texts.begin()->second;
        const std::string first = key.second.substr(0, key.second.find('.'));
        if (not_compared_.contains(first)) return;
        const std::string absent = !other.roles.contains(key.first) ? key.first
                                   : !other.keys.contains(first)    ? first
                                                                    : "";
        result_.differences.push_back({.role = key.first,
                                       .name = key.second,
                                       .canonical = "",
                                       .a = lacking == 'A' ? "" : text,
                                       .b = lacking == 'B' ? "" : text,
                                       .cause = fmt::format("{} lacks it", lacking),
                                       .value = true,
                                       .lacking = lacking,
                                       .absent = absent});
    }

    void compare_places(const Values::Key& key, const std::map<std::string, std::string>& a,
                        const std::map<std::string, std::string>& b) {
        for (const auto& [place, text] : a) {
            const auto other = b.find(place);
            if (other == b.end()) {
                if (!formats::is_default(key.second, text)) unmatched_[key.first].in_a.insert(place);
                continue;
            }
            ++result_.values;
            if (text == other->second) continue;
            result_.differences.push_back(
                {.role = key.first,
                 .name = place.empty() ? key.second : fmt::format("{} of {}", key.second, place),
                 .canonical = "",
                 .a = text,
                 .b = other->second,
                 .cause = "differs",
                 .value = true});
        }
        for (const auto& [place, text] : b)
            if (!a.contains(place) && !formats::is_default(key.second, text)) unmatched_[key.first].in_b.insert(place);
    }

    /// Places of ranks that only one side has.
    struct Unmatched {
        std::set<std::string> in_a;
        std::set<std::string> in_b;
    };

    /// Adds a note if the layouts differ, because other ranks have their own values; otherwise a difference.
    void add_unmatched(const std::string& role, const Unmatched& places) {
        std::vector<std::string> causes;
        if (!places.in_a.empty()) causes.push_back(fmt::format("only A has values of {}", ranks_text(places.in_a)));
        if (!places.in_b.empty()) causes.push_back(fmt::format("only B has values of {}", ranks_text(places.in_b)));
        const std::string cause = fmt::format("{}", fmt::join(causes, ", "));
        if (other_layout_) {
            result_.notes.push_back(fmt::format("{}: {}, which the other layout does not have", role, cause));
            return;
        }
        result_.differences.push_back({.role = role,
                                       .name = role,
                                       .canonical = "",
                                       .a = "",
                                       .b = "",
                                       .cause = fmt::format("{}; --ignore {} leaves {} out", cause, role, role),
                                       .value = true});
    }

    /// "2 ranks (pp 1 tp 0 ep 0; pp 1 tp 1 ep 0)".
    static std::string ranks_text(const std::set<std::string>& places) {
        constexpr std::size_t most = 5;
        std::vector<std::string> shown;
        for (const std::string& place : places)
            if (shown.size() < most) shown.push_back(place.empty() ? "the whole job" : place);
        const std::string rest = places.size() > most ? fmt::format("; and {} more", places.size() - most) : "";
        return fmt::format("{} rank{} ({}{})", places.size(), places.size() == 1 ? "" : "s", fmt::join(shown, "; "),
                           rest);
    }

    const Values& a_;
    const Values& b_;
    const std::function<bool(const std::string&)>& ignored_;
    bool other_layout_;
    Comparison& result_;
    std::set<std::string> not_compared_;          // "args" or "config", which the other side need not have
    std::map<std::string, Unmatched> unmatched_;  // by role
};

nlohmann::json difference_json(const Comparison::Difference& d) {
    return {d.role, d.name, d.canonical, d.a, d.b, d.cause, d.value, static_cast<int>(d.lacking), d.absent};
}

Comparison::Difference from_json(const nlohmann::json& json) {
    return {json[0], json[1], json[2], json[3], json[4], json[5], json[6], static_cast<char>(json[7].get<int>()),
            json[8]};
}

std::string encode(const Comparison& found) {
    nlohmann::json json{{"values", found.values}, {"ignored", found.ignored}, {"notes", found.notes}};
    for (const Comparison::Difference& d : found.differences) json["differences"].push_back(difference_json(d));
    for (const Comparison::Difference& d : found.not_compared) json["not_compared"].push_back(difference_json(d));
    return json.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace);
}

void decode(const std::string& text, Comparison& result) {
    const nlohmann::json json = nlohmann::json::parse(text);
    result.values += json["values"].get<std::uint64_t>();
    for (const auto& [key, count] : json["ignored"].items()) result.ignored[key] += count.get<std::uint64_t>();
    for (const nlohmann::json& note : json["notes"]) result.notes.push_back(note);
    for (const nlohmann::json& d : json.value("differences", nlohmann::json::array()))
        result.differences.push_back(from_json(d));
    for (const nlohmann::json& d : json.value("not_compared", nlohmann::json::array()))
        result.not_compared.push_back(from_json(d));
}

/// Whether both layouts are known and differ in tp, pp, ep or dp.
bool have_other_layouts(const ComparedCheckpoint& a, const ComparedCheckpoint& b) {
    const std::optional<Layout>& one = a.source->layout;
    const std::optional<Layout>& other = b.source->layout;
    return one && other &&
           std::tie(one->tp, one->pp, one->ep, one->dp) != std::tie(other->tp, other->pp, other->ep, other->dp);
}

formats::TrainingValues values_of(const ComparedCheckpoint& member) {
    const formats::Checkpoint& checkpoint = member.source->checkpoint;
    return in_path(checkpoint.catalogue.directory.string(), [&] { return formats::training_values(checkpoint); });
}

}  // namespace

void compare_values(const mpi::Comm& comm, const ComparedCheckpoint& a, const ComparedCheckpoint& b,
                    const std::function<bool(const std::string&)>& ignored, Comparison& result) {
    std::string found;
    std::string steps;
    mpi::all_or_none(comm, [&] {
        if (comm.rank() != 0) return;
        Comparison mine;
        const formats::TrainingValues of_a = values_of(a);
        const formats::TrainingValues of_b = values_of(b);
        const Values side_a{of_a, a.source->checkpoint.format};
        const Values side_b{of_b, b.source->checkpoint.format};
        ValueComparer{side_a, side_b, ignored, have_other_layouts(a, b), mine}.run();
        GroupEntries entries{.settings = !ignored("settings"), .step = !ignored("step")};
        if (entries.settings) entries.by_parameter = compare_settings(a, b, {of_a.groups, of_b.groups}, mine);
        if (entries.settings || entries.step) compare_groups(of_a.groups, of_b.groups, entries, mine);
        for (const auto* all : {&of_a, &of_b}) {
            std::vector<std::string> lines = all->unread;
            if (!all->unplaced.empty()) lines.push_back(all->unplaced);
            for (const std::string& line : lines)
                mine.not_compared.push_back({.role = "extra",
                                             .name = line,
                                             .canonical = "",
                                             .a = "",
                                             .b = "",
                                             .cause = fmt::format("cannot be read in {}", all == &of_a ? 'A' : 'B'),
                                             .value = true});
        }
        const auto texts = [](const Values& side) {
            std::set<std::string> found_steps;
            if (const auto step = side.values.find({"step", "step"}); step != side.values.end())
                for (const auto& [place, text] : step->second) found_steps.insert(text);
            return fmt::format("{}", fmt::join(found_steps, ", "));
        };
        steps = nlohmann::json{texts(side_a), texts(side_b)}.dump();
        found = encode(mine);
    });
    mpi::broadcast(comm, found);
    mpi::broadcast(comm, steps);
    decode(found, result);
    const nlohmann::json texts = nlohmann::json::parse(steps);
    if (ignored("step"))
        result.ignored["step"] += texts[0] == "" && texts[1] == "" ? 0 : 1;
    else
        compare_steps(comm, a, b, {texts[0].get<std::string>(), texts[1].get<std::string>()}, result);
}

}  // namespace tpx::cli
