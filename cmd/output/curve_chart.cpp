// SPDX-License-Identifier: Apache-2.0
#include "cmd/output/curve_chart.hpp"

#include "cmd/output/html_page.hpp"
#include "lib/core/counted.hpp"

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include <algorithm>
#include <cmath>
#include <vector>

namespace tpx::cli {
namespace {

constexpr double page_width = 720, page_height = 400, left = 64, right = 16, top = 24, bottom = 48;

// Converts GPUs and samples per second to coordinates of the chart.
struct Scales {
    double first, last, most;

    double x(double gpus) const {
        return left + (page_width - left - right) * (gpus - first) / std::max(1.0, last - first);
    }
    double y(double throughput) const {
        return page_height - bottom - (page_height - top - bottom) * throughput / most;
    }
};

// A round step that divides `range` into at most nine parts.
double round_step(double range) {
    const double power = std::pow(10, std::floor(std::log10(range)));
    for (const double step : {0.1, 0.2, 0.5, 1.0, 2.0})
        if (range / (step * power) <= 9) return step * power;
    return power;
}

// Numbers of GPUs to mark, at most 13: the first, and multiples of a power of two that are not too close to it.
std::vector<double> marks(double first, double last) {
    constexpr double most = 12;
    double step = 1;
    while ((last - first) / step > most) step *= 2;
    std::vector<double> values{first};
    for (double value = step * std::ceil(first / step); value <= last; value += step)
        if (value >= first + step / 2) values.push_back(value);
    return values;
}

std::string axes(const Scales& at) {
    std::string svg;
    const double step = round_step(at.most);
    for (double value = 0; value <= at.most; value += step)
        svg += fmt::format(
            "<line class=\"grid\" x1=\"{:.1f}\" x2=\"{:.1f}\" y1=\"{:.1f}\" y2=\"{:.1f}\"/>"
            "<text x=\"{:.1f}\" y=\"{:.1f}\" text-anchor=\"end\">{:.4g}</text>\n",
            left, page_width - right, at.y(value), at.y(value), left - 8, at.y(value) + 4, value);
    for (const double value : marks(at.first, at.last))
        svg += fmt::format("<text x=\"{:.1f}\" y=\"{:.1f}\" text-anchor=\"middle\">{:g}</text>\n", at.x(value),
                           page_height - bottom + 18, value);
    return svg + fmt::format(
                     "<text x=\"{:.1f}\" y=\"{:.1f}\" text-anchor=\"middle\">GPUs</text>\n"
                     "<text x=\"{:.1f}\" y=\"14\">samples a second</text>\n",
                     (left + page_width - right) / 2, page_height - 10, left - 48);
}

// Without variables, which many viewers of SVG ignore; curve.css replaces the colors in a page.
std::string style() {
    return "<style>text{font:12px sans-serif;fill:#565f69}.grid{stroke:#dcdfe0}"
           ".most{fill:none;stroke:#14588c;stroke-width:2}.point{fill:#14588c}</style>\n";
}

}  // namespace

std::string plan_or_reason(const CurvePoint& point) {
    if (point.fastest)
        return to_string(point.fastest->plan) +
               (point.used < point.gpus ? fmt::format(" on {}", counted(static_cast<std::uint64_t>(point.used), "GPU"))
                                        : "");
    if (point.is_possible) return "no plan fits into memory";
    return fmt::format("no plan uses exactly {} GPU{}", point.gpus, point.gpus == 1 ? "" : "s");
}

std::string curve_svg(const Job& job, std::span<const CurvePoint> curve) {
    Scales at{static_cast<double>(curve.front().gpus), static_cast<double>(curve.back().gpus),
              1.05 * std::max(curve.back().throughput, 1e-9)};
    std::string path, points;
    for (const CurvePoint& point : curve) {
        const bool start = path.empty();
        path += fmt::format("{}{:.1f} {}{:.1f}", start ? "M" : "H", at.x(point.gpus), start ? "" : "V",
                            at.y(point.throughput));
        if (point.best)
            points += fmt::format(
                "<circle class=\"point\" cx=\"{:.1f}\" cy=\"{:.1f}\" r=\"3\"><title>{} GPUs: {:.4g} "
                "samples a second, {}</title></circle>\n",
                at.x(point.gpus), at.y(point.best->throughput(job.batch)), point.gpus,
                point.best->throughput(job.batch), to_string(point.best->plan));
    }
    return fmt::format(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {} {}\" width=\"{}\" height=\"{}\" role=\"img\">\n"
        "<title>Throughput over GPUs</title>\n{}{}<path class=\"most\" d=\"{}\"/>\n{}</svg>\n",
        page_width, page_height, page_width, page_height, style(), axes(at), path, points);
}

std::string curve_html(const Job& job, std::span<const CurvePoint> curve) {
    nlohmann::ordered_json data{{"model", job.model.name}, {"batch", job.batch}, {"svg", curve_svg(job, curve)}};
    for (const CurvePoint& point : curve)
        data["points"].push_back({{"gpus", point.gpus},
                                  {"plan", plan_or_reason(point)},
                                  {"seconds", point.fastest ? point.fastest->time.total() : 0},
                                  {"throughput", point.throughput},
                                  {"slope", point.slope}});
    const HtmlPage page{.title = "tpx profile",
                        .body = "curve.html",
                        .styles = {"base.css", "curve.css"},
                        .scripts = {"base.js", "curve.js"}};
    return html_page(page, data);
}

}  // namespace tpx::cli
