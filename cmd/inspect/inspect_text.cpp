// SPDX-License-Identifier: Apache-2.0
#include "cmd/inspect/inspection.hpp"
#include "lib/core/counted.hpp"
#include "lib/core/units.hpp"
#include "lib/layout/adapter_family.hpp"

#include <algorithm>

namespace tpx::cli {
namespace {

void print_tensors(const formats::Source& source, Output& out) {
    const Catalogue& catalogue = source.checkpoint.catalogue;
    const auto counts = pieces_per_tensor(catalogue);
    std::size_t width = 0;
    for (const Tensor& tensor : catalogue.tensors) width = std::max(width, printable(tensor.name).size());
    out.result("\n");
    for (const formats::OpaqueTensor& tensor : source.checkpoint.opaque)
        out.result("{:<{}}  {:<5} {:<18} quantized\n", printable(tensor.name), width, tensor.type,
                   to_string(tensor.shape));
    for (std::size_t t = 0; t < catalogue.tensors.size(); ++t) {
        const Tensor& tensor = catalogue.tensors[t];
        out.result("{:<{}}  {:<5} {:<18} {:<10} {} {}\n", printable(tensor.name), width, name(tensor.dtype),
                   to_string(tensor.shape), role_text(source, t), counts[t], counts[t] == 1 ? "piece" : "pieces");
    }
}

std::string family_text(const Reading& reading) {
    if (!reading.dialect) return fmt::format("unknown ({})", printable(reading.why_not));
    if (!is_family_known(reading)) return "LoRA adapter of an unknown base; pass --config config.json";
    if (is_adapter_family(*reading.family))
        return fmt::format("LoRA adapter of {}, {} names", reading.family->name, reading.dialect->name);
    return fmt::format("{}, {} names", reading.family->name, reading.dialect->name);
}

}  // namespace

void print_inspection(const formats::Source& source, const Inspection& found, bool tensors, Output& out) {
    const formats::Checkpoint& checkpoint = source.checkpoint;
    const Catalogue& catalogue = checkpoint.catalogue;
    out.result("format     {}{}\n", formats::name(checkpoint.format),
               checkpoint.variant.empty() ? "" : fmt::format(" ({})", checkpoint.variant));
    out.result("family     {}\n", found.adapter ? found.adapter->family : family_text(source.reading));
    if (found.nearest) out.result("nearest    {}\n", printable(found.nearest->describe()));
    if (found.adapter) out.result("adapter    {}\n", printable(found.adapter->summary));
    if (source.layout)
        out.result("layout     {} ({})\n", to_string(*source.layout), counted(source.layout->ranks(), "rank"));
    else
        out.result("layout     unknown: no layout matches every box\n");
    if (checkpoint.iteration) out.result("iteration  {}\n", *checkpoint.iteration);
    for (const auto& [key, total] : totals(source))
        out.result("{:<10} {} of {}, {}, {}\n", key.first, counted(total.tensors, "tensor"), key.second,
                   counted(total.elements, "element"), format_bytes(static_cast<double>(total.bytes)));
    for (const auto& [scheme, count] : found.schemes)
        out.result("quantized  {}: {}\n", counted(count, "tensor"), scheme);
    out.result("pieces     {} in {}, {}\n", catalogue.pieces.size(), counted(files_of(catalogue).size(), "file"),
               counted(count_replicas(catalogue), "replica"));
    if (!catalogue.objects.empty()) out.result("objects    {}\n", catalogue.objects.size());
    if (found.holes.empty()) out.result("holes      none\n");
    for (const Hole& hole : found.holes)
        out.result("hole       {} {}\n", printable(catalogue.tensors[hole.tensor].name), to_string(hole.box));
    if (tensors) print_tensors(source, out);
}

}  // namespace tpx::cli
