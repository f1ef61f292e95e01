// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "cmd/hold/keeper.hpp"
#include "lib/core/file.hpp"

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

namespace tpx::cli {

/// What is held at one time, as files in host memory that a manifest lists. State on GPUs is copied step by step, so
/// that the keeper can answer others in between.
class HeldSnapshot {
public:
    /// `config` is the name of a config.json, or empty; `save` is as Keeper::hold() has it. Without copies of GPUs, the
    /// manifest says on which GPU the tensors are. Throws Error if there are no parts.
    HeldSnapshot(std::vector<std::shared_ptr<const HeldPart>> parts, std::string save, std::string config,
                 bool copies_gpus);

    bool is_complete() const { return static_cast<bool>(manifest_); }
    bool has_copies() const { return !copies_.empty(); }
    bool has(const std::shared_ptr<const HeldPart>& part) const;

    /// Copies at most 1 GiB from a GPU, and completes the snapshot once all is copied. Throws Error if memory is
    /// missing or CUDA fails. Precondition: it is not complete.
    void step();

    /// Precondition: the snapshot is complete.
    const Fd& manifest() const { return manifest_; }

private:
    std::vector<std::shared_ptr<const HeldPart>> parts_;
    std::string save_;
    std::string config_;
    bool copies_gpus_;
    std::vector<Fd> copies_;    // of the segments of the parts on GPUs, in their order
    std::size_t part_ = 0;      // that is to be copied
    std::uint64_t copied_ = 0;  // bytes of that part
    Fd manifest_;
};

}  // namespace tpx::cli
