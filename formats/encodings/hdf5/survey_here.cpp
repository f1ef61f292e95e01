// SPDX-License-Identifier: Apache-2.0
#include "formats/encodings/hdf5/survey_here.hpp"

#include "formats/encodings/hdf5/file_driver.hpp"
#include "lib/core/error.hpp"

#include <algorithm>

namespace tpx::formats::hdf5 {
namespace {

// A link takes at least this many bytes of a file, which limits the number of names in the file.
constexpr std::uint64_t least_bytes_of_a_link = 8;
constexpr std::size_t deepest_group = 64;

class Surveyor {
public:
    Surveyor(const Bytes& bytes, std::uint64_t base) : base_{base}, most_links_{bytes.length / least_bytes_of_a_link} {}

    void root(hid_t file) {
        const Object object{H5Oopen(file, "/", H5P_DEFAULT)};
        if (!object) throw failure("HDF5 cannot open its root");
        group(object.get(), "");
    }

    Survey survey;

private:
    struct Link {
        std::string name;
        H5L_type_t type = H5L_TYPE_ERROR;
        std::size_t target_size = 0;  // of a soft link, with the final zero
    };

    static herr_t add_link(hid_t, const char* name, const H5L_info_t* info, void* links) {
        static_cast<std::vector<Link>*>(links)->push_back(
            {name, info->type, info->type == H5L_TYPE_SOFT ? info->u.val_size : 0});
        return 0;
    }

    void group(hid_t group, const std::string& path) {
        const std::string shown = path.empty() ? "/" : path;
        H5O_info_t info{};
        if (H5Oget_info2(group, &info, H5O_INFO_BASIC) < 0) throw failure("group '{}': HDF5 cannot read it", shown);
        if (std::ranges::find(above_, info.addr) != above_.end())
            throw failure("group '{}': contains itself, as links go in a circle", shown);
        if (above_.size() == deepest_group) throw failure("group '{}': is {} groups deep", shown, deepest_group);
        survey.groups.push_back({path, {}});
        std::vector<Link> links;
        hsize_t index = 0;
        if (!read_attributes(group, survey.groups.back().attributes) ||
            H5Literate(group, H5_INDEX_NAME, H5_ITER_INC, &index, add_link, &links) < 0)
            throw failure("group '{}': HDF5 cannot read it", shown);
        above_.push_back(info.addr);
        for (const Link& next : links) link(group, path.empty() ? next.name : path + "/" + next.name, next);
        above_.pop_back();
    }

    void link(hid_t parent, const std::string& path, const Link& link) {
        if (++links_ > most_links_) throw failure("has more names ({}) than its size allows", links_);
        if (link.type == H5L_TYPE_EXTERNAL) throw failure("'{}': is a link to another file", path);
        if (link.type != H5L_TYPE_HARD && link.type != H5L_TYPE_SOFT)
            throw failure("'{}': is a link of an unknown kind", path);
        const Object object{H5Oopen(parent, link.name.c_str(), H5P_DEFAULT)};
        if (!object && link.type == H5L_TYPE_SOFT) return broken_link(parent, path, link);
        if (!object)
            throw failure("'{}': libhdf5 {}.{}.{} cannot open it", path, H5_VERS_MAJOR, H5_VERS_MINOR, H5_VERS_RELEASE);
        switch (H5Iget_type(object.get())) {
            case H5I_GROUP:
                return group(object.get(), path);
            case H5I_DATASET:
                return dataset(object.get(), path);
            default:
                return;  // a named type
        }
    }

    static herr_t keep_innermost(unsigned number, const H5E_error2_t* error, void* cause) {
        if (number == 0) *static_cast<hid_t*>(cause) = error->min_num;
        return 0;
    }

    /// Called after H5Oopen() failed for a soft link. Throws Error unless the reason is that the file does not contain
    /// its target.
    void broken_link(hid_t parent, const std::string& path, const Link& link) {
        hid_t cause = H5I_INVALID_HID;
        H5Ewalk2(H5E_DEFAULT, H5E_WALK_UPWARD, keep_innermost, &cause);
        if (cause != H5E_NOTFOUND) throw failure("'{}': is a link to another file, or in a circle", path);
        std::string target(link.target_size, '\0');
        if (H5Lget_val(parent, link.name.c_str(), target.data(), target.size(), H5P_DEFAULT) < 0)
            throw failure("'{}': HDF5 cannot read this link", path);
        survey.broken_links.push_back({path, target.substr(0, target.find('\0'))});
    }

    void dataset(hid_t object, const std::string& path) {
        DatasetFacts facts{.path = path};
        in_context([&] { return fmt::format("dataset '{}'", path); },
                   [&] {
                       describe_dataset(object, base_, facts);
                       if (!read_attributes(object, facts.attributes)) throw failure("HDF5 cannot read its attributes");
                   });
        survey.datasets.push_back(std::move(facts));
    }

    std::uint64_t base_;
    std::uint64_t most_links_;
    std::uint64_t links_ = 0;
    std::vector<haddr_t> above_;
};

}  // namespace

Survey survey_here(const Bytes& bytes) {
    const auto signature = find_signature(bytes);
    if (!signature) throw failure("has no HDF5 signature");
    // The bytes before the signature are a user block. `inner` begins at the signature, so that libhdf5 counts
    // addresses from there.
    Bytes inner = bytes;
    inner.offset += *signature;
    inner.length -= *signature;
    if (inner.fd == nullptr) inner.memory.remove_prefix(*signature);
    // Soft links may lead to external links, which must not be followed.
    H5Lunregister(H5L_TYPE_EXTERNAL);
    const File file = open_bytes(inner);
    if (!file) throw failure("is not a whole HDF5 file ({} bytes)", bytes.length);
    Surveyor surveyor{inner, inner.offset};
    surveyor.root(file.get());
    return std::move(surveyor.survey);
}

}  // namespace tpx::formats::hdf5
