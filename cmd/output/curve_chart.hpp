// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "lib/model/choice.hpp"

#include <span>
#include <string>

namespace tpx::cli {

/// The fastest plan with at most `point.gpus` GPUs, for example "dp=8", or "dp=8 on 8 GPUs" if it leaves GPUs idle;
/// otherwise why there is none: "no plan uses exactly 7 GPUs", "no plan fits into memory".
std::string plan_or_reason(const CurvePoint& point);

/// A drawing, SVG that stands alone, of the throughput over the GPUs: the most that can be had as a line of steps, and
/// a dot where exactly so many GPUs do it.
std::string curve_svg(const Job& job, std::span<const CurvePoint> curve);

/// A page for browsers with the drawing and a table of the plans.
std::string curve_html(const Job& job, std::span<const CurvePoint> curve);

}  // namespace tpx::cli
