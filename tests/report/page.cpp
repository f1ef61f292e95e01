// SPDX-License-Identifier: Apache-2.0
// report_page <PLAN.json >PAGE.html: the report of a plan as --json prints it.
#include "cmd/report/report.hpp"

#include <nlohmann/json.hpp>

#include <iostream>

int main() { std::cout << tpx::cli::html_report(nlohmann::ordered_json::parse(std::cin)); }
