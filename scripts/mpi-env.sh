# shellcheck shell=sh
# Sourced: lets Open MPI's mpirun start any number of local ranks, as root and in a container too.
export OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1 # a container often has no other user
export OMPI_MCA_rmaps_base_oversubscribe=1                       # more ranks than cores
export OMPI_MCA_mpi_yield_when_idle=1                            # a waiting rank leaves its core to the others
export OMPI_MCA_hwloc_base_binding_policy=none                   # a rank has threads of its own
export OMPI_MCA_plm_rsh_agent=false                              # local ranks need no ssh, and it may be missing
