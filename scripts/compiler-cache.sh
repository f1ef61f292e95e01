# shellcheck shell=sh
# Sourced in the root of the source tree by scripts that build tpx: builds in several folders and systems share what the
# compiler made from the same text, if ccache is installed.
if command -v ccache >/dev/null; then
    export CMAKE_C_COMPILER_LAUNCHER=ccache CMAKE_CXX_COMPILER_LAUNCHER=ccache CCACHE_BASEDIR="$PWD" CCACHE_NOHASHDIR=1
fi
