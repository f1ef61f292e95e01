// SPDX-License-Identifier: Apache-2.0
#include "cmd/verify/agreed_source.hpp"

#include "cmd/jobs/read_once.hpp"
#include "cmd/jobs/same_job.hpp"

namespace tpx::cli {

AgreedSource::AgreedSource(const mpi::Comm& comm, const std::string& path, const ReadOptions& options,
                           const std::function<void(AgreedSource&)>& more) {
    mpi::all_or_none(comm, [&] { path_ = path_without_links(path); });
    read_once(comm, path_, [&] {
        opened_ = open_checkpoint(path_, options);
        if (more) more(*this);
    });
    record_.seal();
    require_same(comm, claims_of_source(comm, record_, opened_.source));
}

void AgreedSource::check_unchanged(const mpi::Comm& comm) const { tpx::check_unchanged(comm, record_); }

void require_same_options(const mpi::Comm& comm, const VerifyOptions& options) {
    const auto number = [](Integer value) { return value ? std::to_string(*value) : "default"; };
    const std::string text = fmt::format(
        "{}, rules '{}', config '{}', set '{}', ignore '{}', memory {}, threads {}, io ranks {}, patience {}, "
        "flags {}{}{}{}{}",
        options.second.empty() ? "one checkpoint" : "two checkpoints", fmt::join(options.rules, " "), options.config,
        fmt::join(options.settings, " "), fmt::join(options.ignore, " "),
        options.memory ? std::to_string(*options.memory) : "default", number(options.threads), number(options.io_ranks),
        number(options.patience), int{options.weights_only}, int{options.write}, int{options.masters},
        int{options.dtype}, int{options.tensors});
    require_same(comm, {{"the options", text, {}}});
}

}  // namespace tpx::cli
