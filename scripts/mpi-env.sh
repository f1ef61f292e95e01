# shellcheck shell=sh
# To be sourced: lets Open MPI's mpirun start any number of local ranks, even as root and in a container.
export OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1 # a container often has no other user
export OMPI_MCA_rmaps_base_oversubscribe=1                       # more ranks than cores
export OMPI_MCA_mpi_yield_when_idle=1                            # a waiting rank leaves its core to the others
export OMPI_MCA_hwloc_base_binding_policy=none                   # a rank has several threads
export OMPI_MCA_plm_rsh_agent=false                              # local ranks need no ssh, and it may be missing
