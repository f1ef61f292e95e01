// SPDX-License-Identifier: Apache-2.0
#include "formats/dcp/kept.hpp"

#include "formats/torch/pickle.hpp"
#include "formats/torch/pickle_writer.hpp"

#include <utility>

namespace tpx::formats {
namespace {

struct Owner {
    torch::Document document;
    torch::Value root;
};

}  // namespace

std::shared_ptr<const torch::Value> kept(torch::Document document) {
    auto owner = std::make_shared<Owner>();
    owner->document = std::move(document);
    owner->root = owner->document.root();
    return {owner, &owner->root};
}

std::shared_ptr<const torch::Value> kept_copy(torch::Value value) {
    return kept(torch::read_pickle(torch::write_pickle(value)).document);
}

}  // namespace tpx::formats
