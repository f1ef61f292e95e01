// SPDX-License-Identifier: Apache-2.0
#include "cmd/hosts/plain_store.hpp"

#include "cmd/jobs/keeper_client.hpp"
#include "formats/files/merged_stores.hpp"

namespace tpx::cli {

PlainStore plain_store(const std::string& pattern, const Host& host) {
    if (!pattern.starts_with(held_prefix)) return {formats::store_of(pattern, host), nullptr};
    const std::string name =
        pattern.find("{host}") == pattern.npos ? pattern : formats::store_of(pattern, host).string();
    auto held = std::make_shared<const HeldStore>(name, host.name);
    return {held->folder(), held};
}

}  // namespace tpx::cli
