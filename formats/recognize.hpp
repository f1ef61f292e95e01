// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "formats/checkpoint.hpp"

#include <filesystem>
#include <string>
#include <vector>

namespace tpx::formats {

/// What a path contains.
struct RecognizedPath {
    std::filesystem::path path;  ///< where it is: the path asked for, or the iteration that a Megatron root points to
    Format format = nullptr;     ///< null: known, but not read by this version
    std::string description;     ///< "a DeepSpeed checkpoint"; empty if no known format was found
};

/// The description of a folder of torch.save files that do not form a checkpoint that tpx reads as one.
inline constexpr const char* torch_save_description = "a torch.save checkpoint";

/// Recognizes the directory or file at `path` by names and first bytes. Throws Error if it does not exist, if a file
/// that identifies it is malformed, or if it is part of an output that tpx did not finish.
RecognizedPath recognize(const std::filesystem::path& path);

/// The checkpoints in the subfolders of `path`, or of its snapshots/ (Hugging Face Hub), those with the highest numbers
/// (step-20, iter_0000010) first. If there are none: its parent or grandparent, if that is a checkpoint. If neither is
/// one and the name of `path` ends with a number: the checkpoints beside `path`. Skips folders that cannot be read.
std::vector<RecognizedPath> checkpoints_near(const std::filesystem::path& path);

/// What is around a folder of torch.save files: the checkpoint that is its parent or grandparent, and each of its own
/// files that tpx reads on its own.
std::vector<RecognizedPath> checkpoints_around_files(const std::filesystem::path& folder);

/// The first line of a small text file, such as a pointer to another folder, without white space around it.
std::string first_line(const std::filesystem::path& path);

}  // namespace tpx::formats
