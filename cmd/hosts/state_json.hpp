// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "formats/files/store/manifest.hpp"

#include <nlohmann/json.hpp>

namespace tpx::cli {

/// A state of managed stores as JSON: its manifest without files and tensors.
inline nlohmann::ordered_json state_json(const formats::Manifest& manifest) {
    nlohmann::ordered_json json{{"name", formats::state_name(manifest)},
                                {"job", manifest.job},
                                {"iteration", manifest.iteration},
                                {"epoch", manifest.epoch},
                                {"layout", manifest.layout},
                                {"format", manifest.format},
                                {"replicas", manifest.replicas},
                                {"hosts", nlohmann::ordered_json::array()}};
    for (const formats::ManifestHost& host : manifest.hosts) {
        json["hosts"].push_back({{"name", host.name}, {"ranks", host.ranks}});
        if (!host.devices.empty()) json["hosts"].back()["devices"] = host.devices;
    }
    return json;
}

}  // namespace tpx::cli
