// SPDX-License-Identifier: Apache-2.0
#include "cmd/jobs/held_store.hpp"

#include "cmd/jobs/keeper_client.hpp"
#include "formats/encodings/held/document.hpp"
#include "lib/core/error.hpp"
#include "lib/core/file.hpp"
#include "lib/core/path.hpp"
#include "lib/core/temporary_folder.hpp"
#include "lib/core/write_file.hpp"
#include "lib/exec/local_socket.hpp"
#include "lib/exec/remove.hpp"

#include <unistd.h>

#include <algorithm>
#include <cerrno>

namespace tpx::cli {
namespace {

namespace fs = std::filesystem;
namespace held = formats::held;

void make_link(const fs::path& to, const fs::path& link) {
    if (::symlink(to.c_str(), link.c_str()) != 0) throw system_failure(link, errno);
}

/// Links in `folder` to what `manifest` lists, under names that differ between ranks, and a manifest of the host.
void link_parts(const fs::path& manifest, const std::string& host, const fs::path& folder) {
    const held::Manifest all = held::parse_manifest(read_file(manifest));
    const fs::path from = manifest.parent_path();
    held::Manifest named;
    for (const held::Manifest::Part& part : all.parts) {
        const int rank = held::parse_document(read_file(from / part.document)).rank;
        const held::Manifest::Part own{fmt::format("rank-{:05}.json", rank), fmt::format("rank-{:05}.bin", rank), {}};
        make_link(from / part.document, folder / own.document);
        make_link(from / part.segment, folder / own.segment);
        named.parts.push_back(own);
    }
    if (!all.config.empty()) {
        named.config = "config.json";
        make_link(from / all.config, folder / named.config);
    }
    named.save = all.save;
    write_file(folder / held::manifest_of_host(host), held::write_manifest(named));
}

}  // namespace

HeldStore::HeldStore(const std::string& name, const std::string& host) {
    keeper_socket(name.substr(held_prefix.size()));  // refuses what cannot be a name
    folder_ = make_temporary_folder("tpx-held");
    const std::vector<std::string> names = keeper_names();
    if (std::ranges::find(names, name.substr(held_prefix.size())) == names.end()) return;
    try {
        Fd connection;
        was_killed_ =
            connect_to(keeper_socket(name.substr(held_prefix.size())), connection) == ConnectResult::abandoned;
        if (was_killed_) return;  // the keepers of other hosts can hold the same pieces
        const fs::path manifest = resolve_held_path(name);
        in_context([&] { return name; }, [&] { link_parts(manifest, host, folder_); });
        has_state_ = true;
    } catch (...) {
        remove_tree(folder_);
        throw;
    }
}

HeldStore::~HeldStore() { remove_tree(folder_); }

}  // namespace tpx::cli
