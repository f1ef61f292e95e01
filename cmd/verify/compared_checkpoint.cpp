// SPDX-License-Identifier: Apache-2.0
#include "cmd/verify/compared_checkpoint.hpp"

#include "formats/state/roles.hpp"
#include "lib/core/error.hpp"
#include "lib/core/in_path.hpp"

#include <algorithm>
#include <array>
#include <string_view>

namespace tpx::cli {
namespace {

/// The names by which tensors are compared: their canonical names; if the sizes for splitting tensors are unknown, role
/// and name of the parameter in its dialect; for models without rules, role and parameter name as the checkpoint
/// records them.
class Names {
public:
    explicit Names(const formats::Source& source) : source_{source} {}

    std::string operator()(const formats::CanonicalTensors& canonical, std::size_t t) const {
        if (source_.reading.complete) return canonical.tensors[t].name;
        const Meaning& meaning = source_.reading.meanings[canonical.stored[t]];
        if (meaning.kind == Meaning::Kind::unknown) return of_unknown(canonical.stored[t]);
        if (meaning.kind != Meaning::Kind::parameter) return canonical.tensors[t].name;
        const std::string parameter = meaning.rule->name.name(meaning.indices, false);
        if (meaning.role != Role::state) return fmt::format("{} {}", meaning.role, parameter);
        return of_other_state(parameter, canonical.stored[t]);
    }

private:
    std::string of_unknown(std::size_t stored) const {
        const formats::Checkpoint& checkpoint = source_.checkpoint;
        if (checkpoint.roles.empty()) return fmt::format("weight {}", checkpoint.catalogue.tensors[stored].name);
        const Role role = checkpoint.roles[stored];
        const std::string_view parameter = formats::parameter_of(checkpoint, stored);
        constexpr std::array common{Role::weight,     Role::master, Role::exp_avg,
                                    Role::exp_avg_sq, Role::step,   Role::extra};
        if (std::ranges::find(common, role) != common.end()) return fmt::format("{} {}", role, parameter);
        return of_other_state(parameter, stored);
    }

    /// A parameter may have several tensors of other state, for which formats have no common role.
    std::string of_other_state(std::string_view parameter, std::size_t stored) const {
        const std::string_view name = source_.checkpoint.catalogue.tensors[stored].name;
        return fmt::format("state {} {}", parameter, name.substr(name.find_last_of("./") + 1));
    }

    const formats::Source& source_;
};

}  // namespace

ComparedCheckpoint read_compared_checkpoint(const mpi::Comm& comm, formats::Source& source,
                                            const std::function<bool(const std::string&)>& skipped,
                                            const ExecOptions& options) {
    std::vector<std::string> damaged = damaged_archives(comm, source, options);
    ComparedCheckpoint member{&source, {}, {}, {}, std::move(damaged), {}, {}};
    // Must precede digest_all(), which locates payloads: after that, it is no longer known where archives begin.
    mpi::all_or_none(comm, [&] {
        if (comm.rank() == 0 && !skipped("settings"))
            in_path(source.checkpoint.catalogue.directory.string(), [&] { member.adam = formats::adam_of(source); });
    });
    member.digested = digest_all(comm, source, options, [&](const std::string& role) {
        const bool out = skipped(role);
        member.skipped[role] += out ? 1 : 0;
        return !out;
    });
    std::erase_if(member.skipped, [](const auto& entry) { return entry.second == 0; });
    const Names names{source};
    for (std::size_t t = 0; t < member.digested.digests.size(); ++t) {
        // If two tensors get the same name, the second keeps its canonical name, which is unique.
        if (!member.numbers.emplace(names(member.digested.canonical, t), t).second)
            member.numbers.emplace(member.digested.canonical.tensors[t].name, t);
        member.roles.insert(member.digested.canonical.roles[t]);
    }
    return member;
}

OneTensor one_tensor(const ComparedCheckpoint& member, std::size_t tensor) {
    const formats::CanonicalTensors& canonical = member.digested.canonical;
    OneTensor one{{canonical.tensors[tensor]}, {}, formats::paths(member.source->checkpoint.catalogue)};
    for (const Piece& piece : canonical.pieces) {
        if (piece.tensor != tensor) continue;
        one.pieces.push_back(piece);
        one.pieces.back().tensor = 0;
    }
    return one;
}

}  // namespace tpx::cli
