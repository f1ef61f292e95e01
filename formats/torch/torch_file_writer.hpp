// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "formats/checkpoint.hpp"
#include "formats/encodings/torch/archive_writer.hpp"
#include "formats/encodings/torch/value.hpp"

#include <cstdint>
#include <string>
#include <unordered_map>
#include <vector>

namespace tpx::formats {

/// A new torch.save file: each tensor of a content has a storage of its own, in C order, which its views share; the
/// tensors that vector() joins share one storage.
class TorchFileWriter {
public:
    TorchFileWriter(Format format, const Content& content);

    torch::Document& document() { return document_; }
    torch::Contents& contents() { return contents_; }

    /// The content's tensor or view `name`. Precondition: has(name).
    torch::Value tensor(const std::string& name, bool requires_grad = false);
    bool has(const std::string& name) const { return numbers_.contains(name) || views_.contains(name); }

    /// A vector of the elements of the content's tensors `names`, one after another. No tensor may be joined twice, or
    /// be in the file in another way. Preconditions: has(name) for each, none is a view; there is at least one.
    torch::Value vector(const std::vector<std::string>& names, bool requires_grad);

    /// The draft of the file, which contains `root`. Throws Error if `root` lacks a tensor of the content.
    Draft finish(torch::Value root);

private:
    /// Where a tensor is: a storage has the number of its first tensor as its key.
    struct Place {
        std::uint32_t first = 0;
        std::uint64_t begin = 0;  ///< in elements
    };

    std::uint64_t elements(std::uint32_t number) const;
    std::uint64_t bytes(std::uint32_t number) const;
    Place place_of(std::uint32_t number) const;

    Format format_;
    const Content& content_;
    torch::Document document_;
    torch::Contents contents_;
    std::unordered_map<std::string, std::uint32_t> numbers_;
    std::unordered_map<std::string, const TensorView*> views_;
    std::unordered_map<std::uint32_t, Place> joined_;
};

}  // namespace tpx::formats
