// SPDX-License-Identifier: Apache-2.0
#include "formats/encodings/torch/keep_alive.hpp"

#include "formats/encodings/torch/pickle.hpp"
#include "formats/encodings/torch/pickle_writer.hpp"
#include "formats/encodings/torch/tree_copy.hpp"
#include "lib/core/error.hpp"

#include <utility>

namespace tpx::formats {
namespace {

struct Owner {
    torch::Document document;
    torch::Value root;
};

}  // namespace

std::shared_ptr<const torch::Value> keep_alive(torch::Document document) {
    auto owner = std::make_shared<Owner>();
    owner->document = std::move(document);
    owner->root = owner->document.root();
    return {owner, &owner->root};
}

std::shared_ptr<const torch::Value> keep_copy_alive(torch::Value value) {
    return keep_alive(torch::read_pickle(torch::write_pickle(value)).document);
}

std::shared_ptr<const torch::Value> keep_copy_alive(const torch::Archive& archive, torch::Value value,
                                                    torch::Contents& storages) {
    constexpr std::uint64_t most = std::uint64_t{64} << 20;
    torch::Document document;
    torch::Contents found = storages;
    torch::CarriedTensors carried{document, found, "c"};
    torch::TreeCopy tree{document, true};
    std::uint64_t bytes = 0;
    try {
        const torch::Value copy = tree.copy(value, [&](torch::Value node) -> std::optional<torch::Value> {
            const auto tensor = archive.tensor(node);
            if (!tensor) return std::nullopt;
            bytes += static_cast<std::uint64_t>(volume(tensor->shape) * itemsize(tensor->dtype));
            if (bytes > most) throw failure("{} bytes of tensors", bytes);
            return carried.carry(&archive, node);
        });
        storages = std::move(found);
        return keep_copy_alive(copy);
    } catch (const Error&) {  // writing the copy fails if a storage is missing
        return keep_copy_alive(value);
    }
}

}  // namespace tpx::formats
