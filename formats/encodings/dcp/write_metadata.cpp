// SPDX-License-Identifier: Apache-2.0
#include "formats/encodings/dcp/write_metadata.hpp"

#include "formats/encodings/torch/pickle_writer.hpp"

#include <unordered_map>

namespace tpx::formats {
namespace {

constexpr std::string_view metadata_module = "torch.distributed.checkpoint.metadata";
constexpr std::string_view filesystem_module = "torch.distributed.checkpoint.filesystem";

class Writer {
public:
    explicit Writer(const MetadataContent& content) : content_{content} {}

    std::string write() {
        begin_object(metadata_module, "Metadata");
        out_.string("state_dict_metadata");
        state();
        out_.string("planner_data");
        planner_data();
        out_.string("storage_data");
        storage();
        out_.string("storage_meta");
        storage_meta();
        out_.string("version");
        out_.string("1.0.0");
        end_object();
        return out_.finish();
    }

private:
    /// Begins an object: the names and values of its attributes follow, up to end_object().
    void begin_object(std::string_view module, std::string_view name) {
        new_object(module, name);
        begin_dict();
    }
    void end_object() {
        end_dict();
        out_.build();
    }
    void new_object(std::string_view module, std::string_view name) {
        out_.global(module, name);
        out_.empty_tuple();
        out_.new_object();
    }
    void begin_dict() {
        out_.empty_dict();
        out_.mark();
    }
    void end_dict() { out_.set_items(); }

    void state() {
        begin_dict();
        std::size_t piece = 0;
        for (std::uint32_t i = 0; i < content_.tensors.size(); ++i) {
            const std::size_t first = piece;
            while (piece < content_.pieces.size() && content_.pieces[piece].tensor == i) ++piece;
            out_.string(content_.tensors[i].name);
            tensor(content_.tensors[i], content_.pieces.subspan(first, piece - first));
        }
        for (const Object& object : content_.objects) {
            out_.string(object.name);
            begin_object(metadata_module, "BytesStorageMetadata");
            end_object();
        }
        end_dict();
    }

    void tensor(const Tensor& tensor, std::span<const Piece> pieces) {
        begin_object(metadata_module, "TensorStorageMetadata");
        out_.string("properties");
        properties(tensor);
        out_.string("size");
        size(tensor.shape);
        out_.string("chunks");
        out_.empty_list();
        out_.mark();
        for (const Piece& piece : pieces) {
            begin_object(metadata_module, "ChunkStorageMetadata");
            out_.string("offsets");
            size(begin_of(piece.box));
            out_.string("sizes");
            size(sizes(piece.box));
            end_object();
        }
        out_.appends();
        end_object();
    }

    void properties(const Tensor& tensor) {
        new_object(metadata_module, "TensorProperties");
        out_.mark();
        out_.global("torch", info(tensor.dtype).torch);
        out_.global("torch.serialization", "_get_layout");
        out_.mark();
        out_.string("torch.strided");
        out_.tuple();
        out_.reduce();
        out_.boolean(false);  // requires_grad
        out_.global(metadata_module, "_MEM_FORMAT_ENCODING");
        out_.mark();
        out_.integer(0);  // contiguous
        out_.tuple();
        out_.reduce();
        out_.boolean(false);  // pin_memory
        out_.tuple();
        out_.build();
    }

    void planner_data() {
        if (!content_.planner_data) return out_.none();
        std::unordered_map<std::string_view, torch::Value> known;
        if (content_.known_planner_data != nullptr)
            for (const auto& [name, path] : content_.known_planner_data->entries()) known[name.as_string()] = path;
        const auto path_of = [&](std::string_view name) {
            out_.string(name);
            const auto found = known.find(name);
            if (found != known.end()) return out_.value(found->second);
            out_.mark();
            out_.string(name);
            out_.tuple();
        };
        begin_dict();
        for (const Tensor& tensor : content_.tensors) path_of(tensor.name);
        for (const Object& object : content_.objects) path_of(object.name);
        end_dict();
    }

    void storage() {
        begin_dict();
        for (const Object& object : content_.objects) {
            begin_object(metadata_module, "MetadataIndex");
            out_.string("fqn");
            out_.string(object.name);
            out_.string("index");
            out_.none();
            end_object();
            extent(object.file, object.offset, object.length);
        }
        std::int64_t position = 0;
        for (std::size_t i = 0; i < content_.pieces.size(); ++i) {
            const Piece& piece = content_.pieces[i];
            position = i > 0 && content_.pieces[i - 1].tensor == piece.tensor ? position + 1 : 0;
            begin_object(metadata_module, "MetadataIndex");
            out_.string("fqn");
            out_.string(content_.tensors[piece.tensor].name);
            out_.string("index");
            out_.integer(position);
            out_.string("offset");
            size(begin_of(piece.box));
            end_object();
            extent(piece.file, piece.offset, content_.lengths[i]);
        }
        end_dict();
    }

    void extent(std::uint32_t file, std::uint64_t offset, std::uint64_t length) {
        begin_object(filesystem_module, "_StorageInfo");
        out_.string("relative_path");
        out_.string(content_.files[file].path.filename().string());
        out_.string("offset");
        out_.integer(std::int64_t(offset));
        out_.string("length");
        out_.integer(std::int64_t(length));
        end_object();
    }

    /// The location of the save stays None, so that equal contents give equal bytes.
    void storage_meta() {
        begin_object(metadata_module, "StorageMeta");
        for (std::string_view field : {"checkpoint_id", "save_id", "load_id"}) {
            out_.string(field);
            if (field == "save_id" && !content_.save_id.empty())
                out_.string(content_.save_id);
            else
                out_.none();
        }
        out_.string("modules");
        out_.empty_list();
        end_object();
    }

    static Shape begin_of(const Box& box) {
        Shape begin;
        for (Interval side : box) begin.push_back(side.begin);
        return begin;
    }

    void size(const Shape& shape) { out_.size({shape.begin(), std::size_t(shape.size())}); }

    const MetadataContent& content_;
    torch::PickleWriter out_;
};

}  // namespace

std::string write_metadata(const MetadataContent& content) { return Writer{content}.write(); }

}  // namespace tpx::formats
