# shellcheck shell=sh
# Sourced in the root of the source tree by scripts that build tpx: if ccache is installed, builds in different folders and
# systems share the results of the compiler.
if command -v ccache >/dev/null; then
    export CMAKE_C_COMPILER_LAUNCHER=ccache CMAKE_CXX_COMPILER_LAUNCHER=ccache
    export CCACHE_BASEDIR="$PWD" CCACHE_NOHASHDIR=1 CCACHE_SLOPPINESS=locale
fi
