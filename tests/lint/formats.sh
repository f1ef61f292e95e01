#!/bin/sh
# No code but drivers and the registry names a format: all else asks the driver (formats/README.md). One place does, for
# a reason: cmd/hold/hold_state.cpp, as training state in memory has the format of DCP.
set -u
drivers='^formats/(dcp|deepspeed|gguf|hdf5|megatron|safetensors|torch)/|^formats/registry\.cpp|^cmd/hold/hold_state\.cpp'
! grep -rnE '\b(safetensors|dcp|torch_dist|megatron|deepspeed|universal|torch|torch_legacy|hdf5|keras|keras_legacy|gguf|zarr)_driver\b' \
    formats cmd lib | grep -vE "$drivers"
