// SPDX-License-Identifier: Apache-2.0
// report_page <PLAN.json >PAGE.html: writes the HTML report of a plan that --json printed.
#include "cmd/report/report.hpp"

#include <nlohmann/json.hpp>

#include <iostream>

int main() { std::cout << tpx::cli::html_report(nlohmann::ordered_json::parse(std::cin)); }
