# SPDX-License-Identifier: Apache-2.0
"""HDF5 output of tpx, assembled with h5py by its attributes; and Keras output, loaded by Keras. Each part is skipped if
the library is not installed."""
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
        # Keras 3 cannot read back the name of a loss that it writes into such files, so only weights are loaded.
        old = keras.models.load_model(out / "model.h5", compile=False)
        if not same([np.asarray(w) for w in old.get_weights()], [np.asarray(w) for w in want.get_weights()]):
            faults.append("tiny.h5: Keras loads other values")
    return faults


def recurrent():
    """A model of nested layers, which got their names before they were nested."""
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
    """Weights of version 3 from a whole model in the old format."""
    import keras

    faults = []
    with tempfile.TemporaryDirectory() as folder:
        want = recurrent()
        want.save(f"{folder}/old.h5")
        want.save_weights(f"{folder}/new.weights.h5")
        reshard(tpx, f"{folder}/old.h5", f"{folder}/out", "--to", "tp=1", "--format", "keras")
        if subprocess.run([tpx, "verify", "--ignore", "args", f"{folder}/out", f"{folder}/new.weights.h5"], capture_output=True).returncode:
            faults.append("old and new form: tpx verify sees other states")
        keras.utils.clear_session()
        model = recurrent()
        for variable in model.weights:
            variable.assign(np.ones(variable.shape, "f4"))
        model.load_weights(f"{folder}/out/model.weights.h5")
        if not same(state(model), state(want)):
            faults.append("old form to new: Keras loads other values")
    return faults


def mixed():
    """A functional model with layers that contain others, are shared, are frozen, or keep statistics."""
    import keras
    from keras import layers

    inner = keras.Sequential([keras.Input((6, 4)), layers.Dense(4, name="frozen"), layers.BatchNormalization(name="bn"),
                              layers.SeparableConv1D(4, 1), layers.Dropout(0.3)], name="inner")
    twice = layers.Dense(4, name="twice")
    inputs = keras.Input((6, 4))
    scaled = layers.Normalization()
    scaled.adapt(np.random.default_rng(2).random((8, 6, 4), "f4"))
    x = twice(twice(scaled(inputs))) * 2.0
    x = layers.Add()([layers.MultiHeadAttention(2, 3)(x, x), layers.GroupQueryAttention(2, 4, 2, use_bias=False)(x, x)])
    x = layers.Bidirectional(layers.GRU(2, return_sequences=True))(inner(x))
    x = layers.RNN(layers.StackedRNNCells([layers.LSTMCell(3, name="low"), layers.GRUCell(4, name="high")]),
                   return_sequences=True)(x)
    x = layers.TimeDistributed(keras.Sequential([keras.Input((4,)), layers.Dense(3, dtype="float16")], name="each"))(x)
    x = layers.LayerNormalization(center=False)(layers.ConvLSTM1D(2, 1)(layers.Reshape((6, 1, 3))(x)))
    x = layers.Dense(3)(layers.PReLU()(layers.Flatten()(x)))
    made = keras.Model(inputs, x)
    inner.get_layer("frozen").trainable = False
    made.compile(keras.optimizers.Adam(0.1), keras.losses.MeanSquaredError(), metrics=[keras.metrics.MeanAbsoluteError()])
    made.fit(np.random.default_rng(3).random((8, 6, 4), "f4"), np.ones((8, 3), "f4"), epochs=1, verbose=0)
    return made


def listed(h5py, path):
    """Names and bytes of all variables that the attributes of a whole model in the old format list, in order."""
    found = []
    with h5py.File(path) as file:
        root = file["model_weights"]
        groups = [root[name] for name in root.attrs["layer_names"]] + [file["optimizer_weights"]]
        for group in groups:
            found += [(group.name, name, np.asarray(group[name][()]).tobytes()) for name in group.attrs["weight_names"]]
        return found, json.loads(file.attrs["model_config"]), json.loads(file.attrs["training_config"])


def check_aged(tpx, h5py):
    """Whole models in the old format from those of version 3."""
    import keras

    faults = []
    with tempfile.TemporaryDirectory() as folder:
        keras.utils.set_random_seed(5)
        want = mixed()
        want.save(f"{folder}/new.keras")
        want.save_weights(f"{folder}/new.weights.h5")
        want.save(f"{folder}/own.h5")
        Path(f"{folder}/config.json").write_text(want.to_json())
        reshard(tpx, f"{folder}/new.keras", f"{folder}/a", "--to", "tp=1", "--format", "keras-legacy")
        reshard(tpx, f"{folder}/new.weights.h5", f"{folder}/b", "--to", "tp=1", "--format", "keras-legacy", "--config",
                f"{folder}/config.json")
        (ours, config, training), (own, own_config, own_training) = (
            listed(h5py, f"{folder}/{name}") for name in ("a/model.h5", "own.h5"))
        if [(group, data) for group, _, data in ours] != [(group, data) for group, _, data in own]:
            faults.append("new form to old: Keras lists other values")
        if training != own_training:
            faults.append(f"new form to old: {training} instead of {own_training}")
        # Operations on tensors are kept in the notation of version 3, because Keras cannot read its own in the old
        # format.
        layers, own_layers = (c["config"].pop("layers") for c in (config, own_config))
        different = [a["class_name"] for a, b in zip(layers, own_layers) if a != b]
        if config != own_config or different != ["Multiply"]:
            faults.append(f"new form to old: other configurations, {different}")
        for source in "ab":
            if subprocess.run([tpx, "verify", "--ignore", "args", f"{folder}/{source}", f"{folder}/new.keras"], capture_output=True).returncode:
                faults.append(f"new form to old: tpx verify sees other states in {source}")
            if not same(keras.models.load_model(f"{folder}/{source}/model.h5").get_weights(), want.get_weights()):
                faults.append(f"new form to old: Keras loads another model from {source}")
        other = keras.models.load_model(f"{folder}/new.keras")
        for variable in other.weights:
            variable.assign(np.ones(variable.shape, "f4"))
        other.load_weights(f"{folder}/a/model.h5")
        if not same(other.get_weights(), want.get_weights()):
            faults.append("new form to old: Keras loads other weights")
    return faults


def check_own_classes(tpx):
    """Layers of a user-defined class are identified by another file of the same model, even an untrained one."""
    import keras
    from keras import layers

    @keras.saving.register_keras_serializable("tests")
    class Block(layers.Layer):
        def __init__(self, width=4, **more):
            super().__init__(**more)
            self.width = width
            self.up, self.down = layers.Dense(2 * width), layers.Dense(width)

        def build(self, shape):
            self.up.build(shape)
            self.down.build((*shape[:-1], 2 * self.width))

        def call(self, x):
            return self.down(self.up(x))

    def model():
        keras.utils.clear_session()
        made = keras.Sequential([keras.Input((4,)), Block(), layers.Dense(3), Block(3)])
        made.compile(keras.optimizers.Adam(0.1), keras.losses.MeanSquaredError())
        return made

    faults = []
    with tempfile.TemporaryDirectory() as folder:
        fresh = model()
        for name in ("like.h5", "like.keras"):
            fresh.save(f"{folder}/{name}")
        want = model()
        want.fit(np.ones((4, 4), "f4"), np.ones((4, 3), "f4"), epochs=2, verbose=0)
        for name in ("want.h5", "want.keras"):
            want.save(f"{folder}/{name}")
        alone = subprocess.run([tpx, "reshard", f"{folder}/want.keras", f"{folder}/none", "--to", "tp=1", "--format",
                                "keras-legacy"], capture_output=True, text=True)
        if alone.returncode != 1 or "layer 'block' (of class Block)" not in alone.stderr:
            faults.append(f"a layer of an own class: {alone.returncode} {alone.stderr}")
        reshard(tpx, f"{folder}/want.keras", f"{folder}/old", "--to", "tp=1", "--format", "keras-legacy", "--config",
                f"{folder}/like.h5")
        reshard(tpx, f"{folder}/want.h5", f"{folder}/new", "--to", "tp=1", "--format", "keras", "--config",
                f"{folder}/like.keras")
        if not same(keras.models.load_model(f"{folder}/old/model.h5").get_weights(), want.get_weights()):
            faults.append("own class: Keras loads other weights of the old kind")
        again = model()
        again.fit(np.zeros((4, 4), "f4"), np.ones((4, 3), "f4"), verbose=0)
        again.load_weights(f"{folder}/new/model.weights.h5")
        if not same(state(again), state(want)):
            faults.append("own class: Keras loads another state of version 3")
        for pair in ("old", "want.keras"), ("new", "want.h5"), ("old", "new"):
            # The two Keras formats store the configuration differently, or not at all.
            if subprocess.run([tpx, "verify", "--ignore", "args", *(f"{folder}/{name}" for name in pair)], capture_output=True).returncode:
                faults.append(f"own class: tpx verify sees other states in {pair}")
    return faults


def main(tpx):
    os.environ.setdefault("KERAS_BACKEND", "torch")
    faults, ran = [], 0
    try:
        import h5py

        faults += check_plain(tpx, h5py)
        ran += 1
    except ImportError:
        print("skipped: h5py is not installed")
    try:
        import keras  # noqa: F401

        faults += check_keras(tpx) + check_modernised(tpx) + check_aged(tpx, h5py) + check_own_classes(tpx)
        ran += 1
    except ImportError:
        print("skipped: Keras is not installed")
    for line in faults:
        print("FAIL:", line)
    return 1 if faults else 0 if ran else 77
