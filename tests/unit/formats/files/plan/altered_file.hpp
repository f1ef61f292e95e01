// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <filesystem>
#include <random>
#include <string>
#include <vector>

namespace tpx::testing {

/// One change of one attribute or data set of an HDF5 file.
struct Alteration {
    enum Kind {
        add_first,   ///< one more, or another letter, in the first row
        add_middle,  ///< the same in the middle
        add_last,    ///< the same in the last
        swap,        ///< the first row with the last that differs from it
        drop,        ///< the last row
        remove       ///< all of it
    };
    std::string field;  ///< "/bound", "/hosts/name"
    bool attribute = false;
    Kind kind = remove;

    std::string name() const;
};

/// All alterations of all fields of `file`.
std::vector<Alteration> alterations(const std::filesystem::path& file);

/// Copies plan file `from` to `to` with `alteration` and a fitting CRC. Returns false if the alteration changes
/// nothing.
bool alter(const std::filesystem::path& from, const std::filesystem::path& to, const Alteration& alteration);

/// Copies plan file `from` to `to` with random bytes in some rows of one field and a fitting CRC.
void scramble(const std::filesystem::path& from, const std::filesystem::path& to, std::mt19937& random);

/// Sets the request digest and the CRC of plan file `file` to fit its content.
void fit_request_digest(const std::filesystem::path& file);

}  // namespace tpx::testing
