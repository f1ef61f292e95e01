// SPDX-License-Identifier: Apache-2.0
#include "lib/exec/mpi_library.hpp"

#define DOCTEST_CONFIG_IMPLEMENT
#include <doctest/doctest.h>

int main(int argc, char** argv) {
    tpx::mpi::start();
    const int failed = doctest::Context(argc, argv).run();
    tpx::mpi::stop();
    return failed;
}
