// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "formats/checkpoint.hpp"
#include "formats/encodings/torch/archive_writer.hpp"
#include "formats/encodings/torch/value.hpp"

#include <cstdint>
#include <string>
#include <unordered_map>

namespace tpx::formats {

/// A new torch.save file: each tensor of a content has a storage of its own, in C order, which its views share.
class TorchFileWriter {
public:
    TorchFileWriter(Format format, const Content& content);

    torch::Document& document() { return document_; }
    torch::Contents& contents() { return contents_; }

    /// The content's tensor or view `name`. Precondition: has(name).
    torch::Value tensor(const std::string& name, bool requires_grad = false);
    bool has(const std::string& name) const { return numbers_.contains(name) || views_.contains(name); }

    /// The draft of the file, which contains `root`. Throws Error if `root` lacks a tensor of the content.
    Draft finish(torch::Value root);

private:
    std::uint64_t elements(std::uint32_t number) const;

    Format format_;
    const Content& content_;
    torch::Document document_;
    torch::Contents contents_;
    std::unordered_map<std::string, std::uint32_t> numbers_;
    std::unordered_map<std::string, const TensorView*> views_;
};

}  // namespace tpx::formats
