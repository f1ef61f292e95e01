# SPDX-License-Identifier: Apache-2.0
"""keras_forms.py FOLDER: one small model and its optimizer in every form of Keras 3, with nested layers. Needs keras and a
backend; KERAS_BACKEND=torch was used."""

import os
import sys
import zipfile

import keras
import numpy as np
from keras import layers


def model():
    """Built and compiled, with an optimizer that has taken steps."""
    inputs = keras.Input((4,))
    x = layers.Dense(3, name="first")(inputs)
    x = layers.BatchNormalization(name="norm")(x)
    x = keras.Sequential([layers.Dense(5, use_bias=False, name="inner"), layers.Dense(2, name="outer")], name="head")(x)
    made = keras.Model(inputs, x)
    made.compile(keras.optimizers.Adam(1e-3), "mse")
    made.fit(np.ones((4, 4), "f4"), np.ones((4, 2), "f4"), epochs=2, verbose=0)
    return made


def main(folder):
    folder = os.path.join(folder, "keras")
    os.makedirs(os.path.join(folder, "sharded"), exist_ok=True)
    keras.utils.set_random_seed(1)
    tiny = model()
    tiny.save_weights(os.path.join(folder, "tiny.weights.h5"))
    tiny.save(os.path.join(folder, "tiny.h5"))
    tiny.save(os.path.join(folder, "tiny.keras"))
    tiny.save_weights(os.path.join(folder, "sharded/tiny.weights.json"), max_shard_size=300 / 1024**3)
    # As a tool for archives may have packed it.
    with zipfile.ZipFile(os.path.join(folder, "tiny.keras")) as source, \
            zipfile.ZipFile(os.path.join(folder, "deflated.keras"), "w", zipfile.ZIP_DEFLATED) as out:
        for name in source.namelist():
            out.writestr(name, source.read(name))


if __name__ == "__main__":
    main(sys.argv[1])
