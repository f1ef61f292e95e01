// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <filesystem>
#include <string>

namespace tpx::cli {

/// The JSON Schemas in `folder` as mdoc: a subsection for each document, for each file that tpx reads or writes, and
/// for each part that several documents share, with a list of the keys. `prose` breaks text into lines of mdoc. Throws
/// Error if a file is malformed.
std::string json_documents(const std::filesystem::path& folder, std::string (*prose)(const std::string& text));

}  // namespace tpx::cli
