#!/bin/sh
# Only drivers and the registry name a format; all other code asks the driver (formats/README.md). The one exception is
# cmd/hold/hold_state.cpp, because training state in memory has the format of DCP.
set -u
drivers='^formats/(dcp|deepspeed|gguf|hdf5|megatron|safetensors|torch)/|^formats/registry\.cpp|^cmd/hold/hold_state\.cpp'
! grep -rnE '\b(safetensors|dcp|torch_dist|megatron|deepspeed|universal|torch|torch_legacy|hdf5|keras|keras_legacy|gguf|zarr)_driver\b' \
    formats cmd lib | grep -vE "$drivers"
