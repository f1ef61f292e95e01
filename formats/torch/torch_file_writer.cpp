// SPDX-License-Identifier: Apache-2.0
#include "formats/torch/torch_file_writer.hpp"

#include "formats/torch/driver.hpp"
#include "formats/torch/torch_file.hpp"
#include "lib/core/error.hpp"

#include <map>

namespace tpx::formats {

TorchFileWriter::TorchFileWriter(Format format, const Content& content) : format_{format}, content_{content} {
    for (std::uint32_t t = 0; t < content.tensors.size(); ++t) {
        const Tensor& tensor = content.tensors[t];
        if (info(tensor.dtype).torch.empty() || itemsize(tensor.dtype) == 0)
            throw failure("tensor '{}': torch cannot store tensors of dtype {}", tensor.name, name(tensor.dtype));
        numbers_.emplace(tensor.name, t);
    }
    for (const TensorView& view : content.views) views_.emplace(view.name, &view);
}

std::uint64_t TorchFileWriter::elements(std::uint32_t number) const {
    return static_cast<std::uint64_t>(volume(content_.tensors[number].shape));
}

std::uint64_t TorchFileWriter::bytes(std::uint32_t number) const {
    return elements(number) * static_cast<std::uint64_t>(itemsize(content_.tensors[number].dtype));
}

TorchFileWriter::Place TorchFileWriter::place_of(std::uint32_t number) const {
    const auto joined = joined_.find(number);
    return joined == joined_.end() ? Place{number, 0} : joined->second;
}

torch::Value TorchFileWriter::vector(const std::vector<std::string>& names, bool requires_grad) {
    const std::uint32_t first = numbers_.at(names.at(0));
    const DType dtype = content_.tensors[first].dtype;
    std::uint64_t all = 0;
    for (const std::string& name : names) {
        const std::uint32_t number = numbers_.at(name);
        if (content_.tensors[number].dtype != dtype)
            throw failure("tensor '{}': its dtype differs from that of '{}', but both are stored in one vector", name,
                          names[0]);
        joined_[number] = {first, all};
        all += elements(number);
    }
    const Shape shape{static_cast<Index>(all)};
    return torch::tensor_value(document_, dtype, shape, row_major(shape), std::to_string(first), all, 0, requires_grad);
}

torch::Value TorchFileWriter::tensor(const std::string& name, bool requires_grad) {
    const auto view = views_.find(name);
    const std::uint32_t number = view == views_.end() ? numbers_.at(name) : view->second->tensor;
    const Tensor& tensor = content_.tensors[number];
    const std::string key = std::to_string(number);
    if (view == views_.end())
        return torch::tensor_value(document_, tensor.dtype, tensor.shape, row_major(tensor.shape), key,
                                   elements(number), 0, requires_grad);
    return torch::tensor_value(document_, tensor.dtype, view->second->shape, view->second->strides, key,
                               elements(number), view->second->begin, requires_grad);
}

Draft TorchFileWriter::finish(torch::Value root) {
    torch::Holes holes;
    for (std::uint32_t t = 0; t < content_.tensors.size(); ++t) holes[std::to_string(place_of(t).first)] += bytes(t);
    const torch::ArchiveFrame frame = format_ == &torch_driver ? torch::frame_archive(root, holes, contents_)
                                                               : torch::frame_stream(root, holes, contents_);
    Draft draft;
    draft.tensors = content_.tensors;
    draft.files.push_back({draft_file_name, frame.size});
    std::map<std::uint64_t, std::uint64_t> gaps;  // from starts of storages to their ends
    for (const auto& [key, hole] : frame.holes) {
        gaps.emplace(hole.offset, hole.offset + hole.bytes);
        if (hole.bytes == 0) continue;
        for (const std::uint64_t crc : hole.crcs) draft.crc_slots.push_back({0, 0, crc, hole.offset, hole.bytes});
    }
    std::uint64_t at = 0;
    auto gap = gaps.begin();
    for (const std::string& run : frame.runs) {
        if (!run.empty()) draft.fixed.push_back({0, at, run});
        at += run.size();
        if (gap != gaps.end()) at = (gap++)->second;
    }
    for (std::uint32_t t = 0; t < content_.tensors.size(); ++t) {
        const Tensor& tensor = content_.tensors[t];
        const Place place = place_of(t);
        const auto hole = frame.holes.find(std::to_string(place.first));
        if (hole == frame.holes.end()) throw failure("tensor '{}': has no place in the new file", tensor.name);
        if (volume(tensor.shape) == 0) continue;
        const std::uint64_t before = place.begin * static_cast<std::uint64_t>(itemsize(tensor.dtype));
        Piece piece{.tensor = t, .offset = hole->second.offset + before, .box = whole(tensor.shape), .rank = 0};
        piece.strides = row_major(tensor.shape);
        draft.pieces.push_back(piece);
    }
    return draft;
}

}  // namespace tpx::formats
