# SPDX-License-Identifier: Apache-2.0
"""What tpx writes as HDF5, put together with h5py by its attributes; and what it writes for Keras, loaded by Keras. Each
part is left out where the library is not installed."""
import hashlib
import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path

import numpy as np

DATA = Path(__file__).resolve().parents[2] / "testdata"
NAMES = {"bfloat16": "bf16", "float8_e4m3fn": "f8_e4m3", "float8_e5m2": "f8_e5m2"}


def reshard(tpx, source, out, *more):
    subprocess.run([tpx, "reshard", str(source), str(out), "--quiet", *more], check=True)


def joined(h5py, folder):
    """Dtype and bytes of each whole tensor in the files of all ranks."""
    tensors = {}
    for path in sorted(folder.glob("*.h5")):
        with h5py.File(path) as file:
            assert file.attrs["tpx_format"] == "tpx.hdf5/1", path

            def visit(name, data):
                if not isinstance(data, h5py.Dataset):
                    return
                attributes = dict(data.attrs)
                name = attributes.get("name", name.replace("/", "."))
                dtype = NAMES.get(attributes.get("dtype"), f"{data.dtype.kind}{data.dtype.itemsize * 8}")
                shape = tuple(attributes.get("shape", data.shape))
                first = tuple(attributes.get("offset", (0,) * data.ndim))
                whole = tensors.setdefault(name, (dtype, np.zeros(shape, data.dtype)))[1]
                whole[tuple(slice(b, b + n) for b, n in zip(first, data.shape))] = data[()]

            file.visititems(visit)
    return tensors


def check_plain(tpx, h5py):
    faults = []
    expected = json.loads((DATA / "llama-rope/hf.json").read_text())["tensors"]
    for to in ("tp=1", "fsdp=3", "tp=2"):
        with tempfile.TemporaryDirectory() as folder:
            out = Path(folder) / "out"
            reshard(tpx, DATA / "llama-rope/hf", out, "--to", to, "--format", "hdf5")
            found = joined(h5py, out)
            if sorted(found) != sorted(expected):
                faults.append(f"{to}: {sorted(found.keys() ^ expected.keys())}")
                continue
            for name, (dtype, values) in found.items():
                digest = hashlib.sha256(np.ascontiguousarray(values).tobytes()).hexdigest()
                want = expected[name]
                if (dtype, list(values.shape), digest) != (want["dtype"], want["shape"], want["sha256"]):
                    faults.append(f"{to}: {name} differs")
    return faults


def state(model):
    return [np.asarray(w) for w in model.get_weights()] + [np.asarray(v) for v in model.optimizer.variables]


def same(a, b):
    return len(a) == len(b) and all(x.dtype == y.dtype and np.array_equal(x, y) for x, y in zip(a, b))


def check_keras(tpx):
    import keras

    sys.path.insert(0, str(DATA / "make"))
    import keras_forms

    faults = []
    keras.utils.set_random_seed(7)
    with tempfile.TemporaryDirectory() as folder:
        want = keras_forms.model()
        want.load_weights(DATA / "keras/tiny.weights.h5")
        for source in ("tiny.weights.h5", "tiny.keras", "sharded", "tiny.h5"):
            out = Path(folder) / source.replace(".", "_")
            reshard(tpx, DATA / "keras" / source, out, "--to", "tp=1", "--format", "keras")
            model = keras_forms.model()
            if same(state(model), state(want)):
                faults.append("a fresh model has the saved weights already")
            model.load_weights(out / "model.weights.h5")
            if not same(state(model), state(want)):
                faults.append(f"{source}: Keras loads other values")
        out = Path(folder) / "legacy"
        reshard(tpx, DATA / "keras/tiny.h5", out, "--to", "tp=1", "--format", "keras-legacy")
        # Keras 3 cannot read back the name of a loss that it writes into such files, so that only weights are loaded.
        old = keras.models.load_model(out / "model.h5", compile=False)
        if not same([np.asarray(w) for w in old.get_weights()], [np.asarray(w) for w in want.get_weights()]):
            faults.append("tiny.h5: Keras loads other values")
    return faults


def recurrent():
    """A model of layers within layers, named where they were not yet known to lie."""
    import keras
    from keras import layers

    inputs = keras.Input((6, 4))
    deep = keras.Model(inputs, layers.Dense(4)(layers.MultiHeadAttention(2, 3)(inputs, inputs)), name="deep")
    made = keras.Sequential([keras.Input((6, 4)), keras.Model(inputs, deep(inputs), name="mid"),
                             layers.LSTM(5, return_sequences=True), layers.GRU(3, return_sequences=True),
                             layers.Bidirectional(layers.LSTM(2, return_sequences=True)),
                             layers.TimeDistributed(layers.Dense(3)), layers.Conv1D(4, 2), layers.BatchNormalization(),
                             layers.Dropout(0.2), layers.Flatten(), layers.Dense(2)])
    made.compile(keras.optimizers.SGD(0.1, momentum=0.9), "mse")
    made.fit(np.ones((4, 6, 4), "f4"), np.ones((4, 2), "f4"), epochs=2, verbose=0)
    return made


def check_modernised(tpx):
    """Weights of version 3 out of a whole model of the old kind."""
    import keras

    faults = []
    with tempfile.TemporaryDirectory() as folder:
        want = recurrent()
        want.save(f"{folder}/old.h5")
        want.save_weights(f"{folder}/new.weights.h5")
        reshard(tpx, f"{folder}/old.h5", f"{folder}/out", "--to", "tp=1", "--format", "keras")
        if subprocess.run([tpx, "verify", f"{folder}/out", f"{folder}/new.weights.h5"], capture_output=True).returncode:
            faults.append("old and new form: tpx verify sees other states")
        keras.utils.clear_session()
        model = recurrent()
        for variable in model.weights:
            variable.assign(np.ones(variable.shape, "f4"))
        model.load_weights(f"{folder}/out/model.weights.h5")
        if not same(state(model), state(want)):
            faults.append("old form to new: Keras loads other values")
    return faults


def main(tpx):
    os.environ.setdefault("KERAS_BACKEND", "torch")
    faults, ran = [], 0
    try:
        import h5py

        faults += check_plain(tpx, h5py)
        ran += 1
    except ImportError:
        print("skipped: no h5py here")
    try:
        import keras  # noqa: F401

        faults += check_keras(tpx) + check_modernised(tpx)
        ran += 1
    except ImportError:
        print("skipped: no Keras here")
    for line in faults:
        print("FAIL:", line)
    return 1 if faults else 0 if ran else 77
