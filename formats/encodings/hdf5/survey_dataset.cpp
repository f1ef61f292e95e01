// SPDX-License-Identifier: Apache-2.0
#include "formats/encodings/hdf5/element_type.hpp"
#include "formats/encodings/hdf5/file_driver.hpp"
#include "formats/encodings/hdf5/survey_here.hpp"
#include "lib/core/box.hpp"
#include "lib/core/error.hpp"

#include <algorithm>
#include <array>
#include <span>

namespace tpx::formats::hdf5 {
namespace {

void check(bool worked, std::string_view what) {
    if (!worked) throw failure("HDF5 cannot read its {}", what);
}

void read_shape(hid_t dataset, DatasetFacts& facts) {
    const Space space{H5Dget_space(dataset)};
    check(bool{space}, "shape");
    const H5S_class_t kind = H5Sget_simple_extent_type(space.get());
    if (kind == H5S_NULL) {
        facts.shape = {0};
        return;
    }
    const int axes = H5Sget_simple_extent_ndims(space.get());
    check(axes >= 0, "shape");
    std::vector<hsize_t> sizes(static_cast<std::size_t>(axes));
    check(H5Sget_simple_extent_dims(space.get(), sizes.data(), nullptr) >= 0, "shape");
    facts.shape.assign(sizes.begin(), sizes.end());
}

constexpr H5Z_filter_t lzf_of_h5py = 32000;

constexpr std::size_t most_values = 20;  // parameters of a filter; scale-offset has the most

/// Adds the scale-offset filter, whose parameters `values` are.
void add_scale_offset(std::span<const unsigned> values, DatasetFacts& facts) {
    enum { scale_type, scale_factor, elements, type_class, size, sign, order, has_fill, fill };
    constexpr unsigned scaled_by_decimals = 0, whole_numbers = 2, real_class = 1;
    check(values.size() == most_values, "scale-offset filter");
    ScaleOffset filter{.is_real = values[type_class] == real_class, .is_big_endian = values[order] == 1};
    filter.item = values[size];
    filter.decimals = static_cast<std::int32_t>(values[scale_factor]);
    const bool fits = filter.item == facts.item && filter.item <= 8 && (!filter.is_real || filter.item >= 4) &&
                      values[scale_type] == (filter.is_real ? scaled_by_decimals : whole_numbers);
    check(fits && filter.is_big_endian == (facts.swapped && filter.item > 1), "scale-offset filter");
    if (values[has_fill] == 1) filter.fill = values[fill] | std::uint64_t{values[fill + 1]} << 32;
    filter.is_identity = !filter.is_real && values[scale_factor] == 8 * filter.item;
    facts.scale_offset = filter;
    facts.filters.push_back(Coding::Filter::scale_offset);
}

bool is_compression(Coding::Filter filter) {
    return filter == Coding::Filter::deflate || filter == Coding::Filter::lzf;
}

void read_filters(hid_t properties, DatasetFacts& facts) {
    const int count = H5Pget_nfilters(properties);
    check(count >= 0, "filters");
    for (unsigned k = 0; k < static_cast<unsigned>(count); ++k) {
        unsigned flags = 0, config = 0;
        std::array<unsigned, most_values> values{};
        std::size_t count_of_values = values.size();
        std::array<char, 64> name{};
        const H5Z_filter_t filter = H5Pget_filter2(properties, k, &flags, &count_of_values, values.data(),
                                                   name.size() - 1, name.data(), &config);
        check(filter >= 0, "filters");
        if (filter == H5Z_FILTER_DEFLATE)
            facts.filters.push_back(Coding::Filter::deflate);
        else if (filter == H5Z_FILTER_SHUFFLE)
            facts.filters.push_back(Coding::Filter::shuffle);
        else if (filter == H5Z_FILTER_FLETCHER32)
            facts.filters.push_back(Coding::Filter::fletcher32);
        else if (filter == lzf_of_h5py)
            facts.filters.push_back(Coding::Filter::lzf);
        else if (filter == H5Z_FILTER_SCALEOFFSET && std::ranges::none_of(facts.filters, is_compression))
            add_scale_offset(std::span{values}.first(std::min(count_of_values, values.size())), facts);
        else
            facts.refusal = fmt::format(
                "is stored with the filter '{}' (number {}); tpx reads only gzip, lzf, scaleoffset, shuffle and "
                "fletcher32; 'h5repack -f NONE OLD.h5 NEW.h5' removes filters",
                name.data(), filter);
    }
    if (std::ranges::count_if(facts.filters, is_compression) > 1) facts.refusal = "is compressed twice";
}

// libhdf5 1.10 counts through all chunks to find the k-th one. If there are more, they are looked up by position.
constexpr hsize_t few_chunks = 256;

/// Finds the `count` stored chunks by trying all positions of the grid. Returns false and leaves `facts` unchanged if
/// the grid has many more positions than chunks, or if not all chunks were found.
bool probe_chunks(hid_t dataset, std::uint64_t base, hsize_t count, DatasetFacts& facts) {
    const std::size_t axes = facts.chunk_shape.size();
    hsize_t places = 1;
    for (std::size_t k = 0; k < axes; ++k) {
        if (facts.chunk_shape[k] == 0 || facts.shape[k] == 0) return false;
        if (__builtin_mul_overflow(places, (facts.shape[k] - 1) / facts.chunk_shape[k] + 1, &places)) return false;
    }
    if (places > 64 * count + 65536) return false;
    std::vector<std::uint64_t> found;
    std::vector<hsize_t> first(axes, 0);
    for (hsize_t k = 0; k < places; ++k) {
        hsize_t length = 0;
        if (H5Dget_chunk_storage_size(dataset, first.data(), &length) >= 0 && length > 0) {
            PayloadProbe probe;
            std::uint32_t skipped = 0;
            std::byte nothing{};
            if (H5Dread_chunk(dataset, H5P_DEFAULT, first.data(), &skipped, &nothing) < 0 || probe.length != length)
                return false;
            found.insert(found.end(), first.begin(), first.end());
            found.insert(found.end(), {probe.offset + base, length, skipped});
        }
        for (std::size_t axis = axes; axis-- > 0;) {
            first[axis] += facts.chunk_shape[axis];
            if (first[axis] < facts.shape[axis]) break;
            first[axis] = 0;
        }
    }
    if (found.size() != count * (axes + 3)) return false;
    facts.chunks = std::move(found);
    return true;
}

void read_chunks(hid_t dataset, hid_t properties, std::uint64_t base, DatasetFacts& facts) {
    const int axes = H5Pget_chunk(properties, 0, nullptr);
    check(axes > 0, "chunks");
    std::vector<hsize_t> sizes(static_cast<std::size_t>(axes));
    check(H5Pget_chunk(properties, axes, sizes.data()) == axes, "chunks");
    facts.chunk_shape.assign(sizes.begin(), sizes.end());
    unsigned options = 0;
    facts.edges_are_plain =
        H5Pget_chunk_opts(properties, &options) >= 0 && (options & H5D_CHUNK_DONT_FILTER_PARTIAL_CHUNKS) != 0;
    const Space space{H5Dget_space(dataset)};
    hsize_t count = 0;
    check(H5Dget_num_chunks(dataset, space.get(), &count) >= 0, "chunks");
    if (count > few_chunks && probe_chunks(dataset, base, count, facts)) return;
    std::vector<hsize_t> first(sizes.size());
    for (hsize_t k = 0; k < count; ++k) {
        unsigned skipped = 0;
        haddr_t at = HADDR_UNDEF;
        hsize_t length = 0;
        check(H5Dget_chunk_info(dataset, space.get(), k, first.data(), &skipped, &at, &length) >= 0, "chunks");
        if (at == HADDR_UNDEF) continue;
        facts.chunks.insert(facts.chunks.end(), first.begin(), first.end());
        facts.chunks.insert(facts.chunks.end(), {at + base, length, skipped});
    }
}

void read_compact(hid_t dataset, hid_t type, DatasetFacts& facts) {
    constexpr std::uint64_t longest = 65536;  // of a message in an object header
    std::uint64_t bytes = H5Tget_size(type);
    const Space space{H5Dget_space(dataset)};
    const hssize_t count = H5Sget_simple_extent_npoints(space.get());
    check(count >= 0 && !__builtin_mul_overflow(bytes, static_cast<std::uint64_t>(count), &bytes) && bytes <= longest,
          "elements");
    facts.fill.resize(bytes);
    if (bytes > 0) check(H5Dread(dataset, type, H5S_ALL, H5S_ALL, H5P_DEFAULT, facts.fill.data()) >= 0, "elements");
}

void read_fill_value(hid_t properties, hid_t type, DatasetFacts& facts) {
    H5D_fill_value_t defined = H5D_FILL_VALUE_UNDEFINED;
    if (H5Pfill_value_defined(properties, &defined) < 0 || defined != H5D_FILL_VALUE_USER_DEFINED) return;
    facts.fill.resize(H5Tget_size(type));
    check(H5Pget_fill_value(properties, type, facts.fill.data()) >= 0, "fill value");
}

void swap_fill(DatasetFacts& facts) {
    if (!facts.swapped || facts.part < 2) return;
    for (std::size_t at = 0; at + facts.part <= facts.fill.size(); at += facts.part)
        std::reverse(facts.fill.data() + at, facts.fill.data() + at + facts.part);
}

}  // namespace

void describe_dataset(hid_t dataset, std::uint64_t base, DatasetFacts& facts) {
    const Type type{H5Dget_type(dataset)};
    const Properties properties{H5Dget_create_plist(dataset)};
    check(bool{type} && bool{properties}, "type");
    read_shape(dataset, facts);
    describe_type(type.get(), facts);
    const H5D_layout_t layout = H5Pget_layout(properties.get());
    if (layout == H5D_VIRTUAL) facts.refusal = "is a virtual dataset, made of parts of other files";
    if (layout == H5D_CONTIGUOUS && H5Pget_external_count(properties.get()) > 0)
        facts.refusal = "is stored in other files (external storage)";
    if (!facts.refusal.empty() || !facts.kind.empty()) return;
    if (facts.shape.size() > max_rank) {
        facts.refusal = fmt::format("has {} axes, more than {}", facts.shape.size(), max_rank);
        return;
    }
    read_filters(properties.get(), facts);
    read_fill_value(properties.get(), type.get(), facts);
    if (layout == H5D_COMPACT) {
        facts.storage = Storage::compact;
        read_compact(dataset, type.get(), facts);
    } else if (layout == H5D_CHUNKED) {
        facts.storage = Storage::chunked;
        // Each chunk contains whole elements of an array type, so the axes that the type adds are not split.
        read_chunks(dataset, properties.get(), base, facts);
    } else {
        check(layout == H5D_CONTIGUOUS, "layout");
        const haddr_t at = H5Dget_offset(dataset);
        facts.written = at != HADDR_UNDEF && H5Dget_storage_size(dataset) > 0;
        facts.offset = facts.written ? at + base : 0;
    }
    swap_fill(facts);
}

}  // namespace tpx::formats::hdf5
