# SPDX-License-Identifier: Apache-2.0
# Put this file in a Spack repository as packages/tpx/package.py, then, in the root of the source:
#   spack dev-build tpx@0.1.0
from spack.package import *


class Tpx(CMakePackage, CudaPackage):
    """Changes the parallel layout and the format of training checkpoints of Megatron-core, PyTorch DCP, DeepSpeed,
    Hugging Face and HDF5."""

    license("Apache-2.0")

    version("0.1.0")

    depends_on("c", type="build")
    depends_on("cxx", type="build")
    depends_on("cmake@3.25:", type="build")
    depends_on("cli11@2:", type="build")
    depends_on("nlohmann-json@3.9:", type="build")
    depends_on("tomlplusplus@3:", type="build")
    depends_on("fmt@9:")
    depends_on("hdf5@1.10: ~mpi")
    depends_on("hwloc@2:")
    depends_on("isa-l@2.30:")
    depends_on("mpi")  # for the plug-in; without a launcher, tpx runs without MPI
    depends_on("zlib-api")
    depends_on("nccl", when="+cuda")

    def cmake_args(self):
        return [
            self.define("BUILD_TESTING", False),
            self.define("CMAKE_UNITY_BUILD", True),
            self.define_from_variant("TPX_CUDA", "cuda"),
        ]
