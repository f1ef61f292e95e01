// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "formats/encodings/torch/archive.hpp"

#include <cstdint>
#include <filesystem>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace tpx::formats {

/// Where a torch.save archive is in its file.
struct ArchivePlace {
    std::uint64_t offset = 0;
    std::uint64_t length = 0;
};

/// Archives of one file, sorted by offset.
struct FileArchives {
    std::filesystem::path path;
    std::vector<ArchivePlace> places;
};

/// What the archives of one file contain. Archives whose tensors have the same dtype, shape, strides and offset from
/// the start of the archive share one element of `forms`; of_archives[k] is the index of that element for archive k.
struct ArchiveForms {
    std::vector<torch::StoredTensor> forms;  ///< without the name of the storage
    std::vector<std::uint32_t> of_archives;  ///< of all archives or, if one failed, of those before it
    std::string cause;                       ///< why the next archive contains no tensor; empty: none failed

    const torch::StoredTensor& of(std::size_t archive) const { return forms[of_archives[archive]]; }
};

/// The forms of each of `files`, up to the first file with an archive that failed. Asks other processes if they can
/// answer (see ask_other_processes()), or uses recorded answers (see FileAnswers). Otherwise reads the files: both ends
/// of each long archive, and all of each short one. Throws Error if a file cannot be opened.
std::vector<ArchiveForms> forms_of(std::span<const FileArchives> files);

/// Answers a question that forms_of() asks about the file at `path`.
std::string answer_archive_question(const std::filesystem::path& path, std::string_view question);

}  // namespace tpx::formats
