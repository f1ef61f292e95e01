# Settings for cpack, which builds Debian packages of tpx and of its MPI plug-in; with TPX_BUNDLE, an archive that runs
# wherever it is unpacked. scripts/package/deb.sh builds and checks the Debian packages.
set(CPACK_PACKAGE_CONTACT "${CMAKE_PROJECT_NAME} developers <root@localhost>" CACHE STRING "Maintainer of packages")
set(CPACK_PACKAGE_VENDOR "")
set(CPACK_RESOURCE_FILE_LICENSE ${PROJECT_SOURCE_DIR}/LICENSE)
set(CPACK_STRIP_FILES ON)
set(CPACK_INSTALL_DEFAULT_DIRECTORY_PERMISSIONS
  OWNER_READ OWNER_WRITE OWNER_EXECUTE GROUP_READ GROUP_EXECUTE WORLD_READ WORLD_EXECUTE)
if(TPX_BUNDLE)
  set(CPACK_GENERATOR TXZ)
  set(linked libhdf5-dev=hdf5 libcli11-dev=cli11 nlohmann-json3-dev=nlohmann-json)
  set(cuda_license)
  if(TPX_CUDA)
    find_file(TPX_CUDA_LICENSE NAMES EULA.txt LICENSE copyright
      HINTS ${CUDAToolkit_LIBRARY_ROOT} ${CUDAToolkit_TARGET_DIR} ${CUDAToolkit_TARGET_DIR}/doc NO_DEFAULT_PATH
      DOC "License of CUDA's runtime")
    set(cuda_license ${TPX_CUDA_LICENSE})
  endif()
  install(CODE "set(LINKED \"${linked}\")\nset(CUDA_LICENSE \"${cuda_license}\")")
  install(SCRIPT ${CMAKE_CURRENT_LIST_DIR}/licenses.cmake)
else()
  set(CPACK_GENERATOR DEB)
endif()

set(CPACK_DEB_COMPONENT_INSTALL ON)
set(CPACK_COMPONENTS_ALL tpx mpi)
set(CPACK_DEBIAN_FILE_NAME DEB-DEFAULT)
set(CPACK_DEBIAN_PACKAGE_CONTROL_STRICT_PERMISSION ON)
set(CPACK_DEBIAN_PACKAGE_SHLIBDEPS ON)
set(CPACK_DEBIAN_PACKAGE_SECTION science)
set(CPACK_DEBIAN_PACKAGE_PRIORITY optional)
set(CPACK_DEBIAN_TPX_PACKAGE_NAME tpx)
set(CPACK_DEBIAN_TPX_PACKAGE_RECOMMENDS tpx-mpi)
set(CPACK_PACKAGE_DESCRIPTION_SUMMARY "reshards, converts and verifies training checkpoints")
set(CPACK_DEBIAN_TPX_DESCRIPTION "tpx changes the parallel layout and the format of training checkpoints of
Megatron-core, PyTorch DCP, DeepSpeed, Hugging Face and HDF5, including
optimizer state. It plans the fewest bytes that a change must move, and
compares checkpoints value by value, whatever their layouts and formats.")
set(CPACK_DEBIAN_MPI_PACKAGE_NAME tpx-mpi)
set(CPACK_DEBIAN_MPI_PACKAGE_DEPENDS "tpx (= ${PROJECT_VERSION})")
set(CPACK_DEBIAN_MPI_PACKAGE_ENHANCES tpx)
set(CPACK_DEBIAN_MPI_DESCRIPTION "tpx loads this MPI plug-in if mpirun or srun starts several processes of it.")
# Runs after the files are installed in a staging folder, and before they are packed.
set(CPACK_PRE_BUILD_SCRIPTS ${PROJECT_SOURCE_DIR}/scripts/package/debian/stage.cmake)
set(CPACK_PROJECT_CONFIG_FILE ${PROJECT_SOURCE_DIR}/scripts/package/debian/config.cmake)
include(CPack)
