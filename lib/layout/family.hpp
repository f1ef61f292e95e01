// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "lib/layout/notation.hpp"
#include "lib/state/role.hpp"

#include <cstdint>
#include <map>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace tpx {

/// A canonical tensor: a name with factored axes, and how parallelism may split it.
struct CanonicalTensor {
    std::string name;
    std::vector<Axis> axes;  ///< `l`, and `e` if `ep` is set, come first and are indices, not axes of the pieces
    char tp = 0;             ///< the factor that tensor parallelism (with `ep`: etp) splits; 0: replicated
    char local_tp = 0;       ///< the factor that only Megatron's own layers split (transformer_impl=local)
    char ep = 0;             ///< 'e': blocks of experts are split over ranks, with one piece per expert; 0: none
    bool first = false;      ///< outside layers: on the first stage
    bool last = false;       ///< outside layers: on the last stage
    bool mtp = false;        ///< outside layers: also on the stage of the layers for multi-token prediction, if any
    bool buffer = false;     ///< not a parameter, so FSDP does not split it
    bool optional = false;   ///< a checkpoint or some of its layers may lack it
    bool outer = false;      ///< it is outside the language model, see OuterModel
    std::string tie;         ///< the canonical tensor that replaces it if a checkpoint lacks it

    bool has(char letter) const;  ///< `letter` is one of its factors
    bool is_index(char letter) const { return letter == 'l' || (letter == 'e' && ep != 0); }
};

/// A stored name and what the stored tensor contains.
struct Rule {
    NameTemplate name;
    Expression expression;
    /// The rule is used to write only if one of the tags holds (for "a+b", both) or there are none; all rules are used
    /// to read.
    std::vector<std::string> tags;

    bool tagged(std::string_view tag) const;
    bool alias() const { return tagged("alias"); }  ///< a second copy, which is read but never written
};

/// How optimizer state is named: `pattern` has one `*`, the parameter's stored name.
struct RolePattern {
    Role role = Role::weight;
    std::string pattern;
    std::string tag;  ///< the pattern is used to write only if it holds; all patterns are used to read
};

/// How torch's distributed checkpoints name optimizer state, whatever the model's names are. All are used to read
/// dialects without roles of their own, and the first pattern of each role to write.
std::span<const RolePattern> torch_roles();

/// The names by which one framework stores a family's tensors.
struct Dialect {
    std::string name;
    std::vector<Rule> rules;
    bool bare = false;               ///< names are written without their bracketed prefix
    std::vector<std::string> extra;  ///< globs of names that are not parameters
    std::vector<std::string>
        whole;  ///< globs of parameters outside the language model, which each rank has whole; see is_whole()
    std::vector<RolePattern> roles;
    std::vector<std::string> inside;  ///< prefixes of the language model's names inside another model; else empty

    /// Whether a pattern of `whole` matches the name of a tensor.
    bool is_listed_whole(std::string_view tensor) const;

    /// Whether a tensor that no rule matches is a part outside the language model, which each rank has whole: a pattern
    /// of `whole` matches its name, or its name is not one of those inside.
    bool is_whole(std::string_view tensor) const;
};

/// How the names of a dialect change if its model is part of another one, such as the text model of a vision-language
/// model.
struct Nesting {
    std::string prefix;  ///< replaces the bracketed prefix of names
    std::string before;  ///< precedes names without a bracketed prefix
};

/// A name in a dialect for tensors of a part outside the language model.
struct OuterName {
    /// All names of a part have one `*`, or none has. A number `*?` may be absent together with the dot before it; the
    /// tensors of all numbers are then stacked along a leading axis.
    std::string glob;
    std::vector<std::string> tensors;  ///< those that are stored under it, joined if there are several
    std::vector<Axis> axes;            ///< as they are stored; empty: as they are declared
};

/// A tensor of a part outside the language model.
struct OuterTensor {
    std::string name;        ///< empty: the only one of its part
    std::vector<Axis> axes;  ///< empty: a, b, and so on
    char tp = 0;             ///< the factor that tensor parallelism splits; 0: each rank has the tensor whole
};

/// A part outside the language model. With pipeline parallelism it is on the first stage.
struct OuterPart {
    std::vector<OuterTensor> tensors;
    std::map<std::string, std::vector<OuterName>> names;  ///< by dialect; if a tensor has several, the first is written
};

/// Describes a model that contains this language model and other parts, such as a vision tower, and maps the names of
/// those parts between dialects.
struct OuterModel {
    std::vector<std::string> types;                    ///< its values of model_type
    std::map<std::string, Nesting, std::less<>> nest;  ///< by dialect
    std::map<char, std::string> dims;  ///< formulas of the sizes of factors of parts; others follow from shapes
    std::vector<OuterPart> parts;
};

/// One entry of a configuration that is written for a framework: see configuration_for().
struct ConfigEntry {
    std::string key;
    std::string formula;
    bool list = false;                   ///< the value is written as a list
    std::vector<std::string> more = {};  ///< formulas of the further items of a tuple
};

/// What a framework demands of one setting of the source, see check_framework_limits().
struct FrameworkLimit {
    std::string condition;  ///< see evaluate_condition(); an unknown condition holds
    std::string reason;     ///< what the framework does instead of following the setting
    std::string value;      ///< the value of the setting that the framework follows
};

/// Models that are built alike: the canonical tensors, where their sizes are found, and how each framework names them.
struct Family {
    std::string name;
    bool told = false;                                        ///< used only if the checkpoint's model_type names it
    bool remote_code = false;                                 ///< transformers loads its code from the checkpoint
    std::map<std::string, std::vector<std::string>> detect;   ///< by source of configuration: hf, mcore
    std::map<char, std::map<std::string, std::string>> dims;  ///< factor -> source of configuration -> formula
    std::map<std::string, std::map<char, std::string>> pad;   ///< dialect -> factor -> formula
    std::map<std::string, std::string> tied;                  ///< source of configuration -> condition
    std::map<std::string, std::vector<ConfigEntry>> config;   ///< by dialect: the settings that its framework needs
    /// For tensors that only some models or layers have: tensor -> source of configuration -> condition, see
    /// evaluate_condition().
    std::map<std::string, std::map<std::string, std::string>, std::less<>> present;
    std::map<std::string, std::map<std::string, FrameworkLimit>>
        limits;  ///< dialect -> setting -> what its framework can follow
    /// Settings that change what a model computes, and for which its framework would assume a value if a configuration
    /// lacks them: dialect -> key -> assumed value.
    std::map<std::string, std::map<std::string, std::string>> needed;
    std::vector<std::string> tp_divides;  ///< formulas that tp must divide
    std::map<std::string, CanonicalTensor, std::less<>> tensors;
    std::vector<Dialect> dialects;
    std::vector<OuterModel> outer;
    bool is_outer = false;  ///< it was extended to an outer model, see widen_family()

    const Dialect* dialect(std::string_view wanted) const;
    /// True if the size of a factor can differ from layer to layer (its formula for "any" is "varies"); see
    /// layer_formula().
    bool varies(char letter) const;
    bool has_varying_sizes() const;                                ///< the size of some factor varies
    const CanonicalTensor& tensor(std::string_view wanted) const;  ///< throws Error when there is none
};

/// What a table by source of configuration contains for `source`, else for "any"; null if it contains neither.
const std::string* formula_for(const std::map<std::string, std::string>& by_source, std::string_view source);

/// `dialect` with the names that it has inside another model.
Dialect nested_dialect(const Dialect& dialect, const Nesting& nesting);

/// A file of rules.
struct FamilySource {
    std::string_view name;  ///< for messages
    std::string_view toml;
    /// It is known to be valid and to contain its whole FamilyHead before its first table, so that it can be read
    /// later.
    bool proven = false;
    std::span<const std::uint32_t> name_hashes = {};  ///< see hash_rule_names(); empty: unknown, as if not proven
};

/// Reads one family that extends no other.
Family parse_family(std::string_view toml, std::string_view source);

}  // namespace tpx
