// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "lib/model/evaluate_plan.hpp"

#include <span>
#include <string>

namespace tpx::cli {

/// The fastest plan with at most `point.gpus` GPUs, for example "dp=8", or "dp=8 on 8 GPUs" if it leaves GPUs idle;
/// otherwise why there is none: "no plan uses exactly 7 GPUs", "no plan fits into memory".
std::string plan_or_reason(const CurvePoint& point);

/// A standalone SVG chart of throughput over the number of GPUs: a step line for the highest throughput with at most so
/// many GPUs, and a dot for the best plan that uses exactly so many.
std::string curve_svg(const Job& job, std::span<const CurvePoint> curve);

/// An HTML page with the chart and a table of the plans.
std::string curve_html(const Job& job, std::span<const CurvePoint> curve);

}  // namespace tpx::cli
