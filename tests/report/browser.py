# SPDX-License-Identifier: Apache-2.0
"""A headless Chromium, driven through pipes by its own protocol with only Python's standard library."""
import base64
import json
import os
import select
import shutil
import subprocess
import tempfile
import time

NAMES = ("chromium", "chromium-headless-shell", "chromium-browser", "google-chrome")
SWITCHES = ("--headless", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage", "--hide-scrollbars",
            "--no-first-run", "--disable-background-networking", "--remote-debugging-pipe")
OWN = ("file:", "data:", "about:", "blob:")  # requests that a self-contained page may make
SECONDS = 600  # timeout for a browser that does not answer; long, for busy machines

SETTLED = """new Promise((done) =>
    requestAnimationFrame(() => requestAnimationFrame(() => setTimeout(done, 0))))"""


def find_browser():
    return next((path for path in map(shutil.which, NAMES) if path), None)


class Page:
    """One page of one browser; `faults` gathers errors of scripts, complaints of the console, and requests."""

    def __init__(self, width=1280, height=900):
        # The browser reads commands from descriptor 3 and answers on 4: both are kept from other use until then.
        held = [os.open(os.devnull, os.O_RDONLY) for _ in range(2)]
        commands, self.writer = os.pipe()
        self.reader, answers = os.pipe()
        self.profile = tempfile.mkdtemp(prefix="tpx-report-")

        def connect():
            os.dup2(commands, 3)
            os.dup2(answers, 4)

        self.process = subprocess.Popen(
            [find_browser(), *SWITCHES, f"--user-data-dir={self.profile}"], preexec_fn=connect, pass_fds=(3, 4),
            stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        for descriptor in (*held, commands, answers):
            os.close(descriptor)
        self.buffer = b""
        self.number = 0
        self.faults = []
        self.events = []
        self.session = None
        target = self.send("Target.createTarget", url="about:blank")["targetId"]
        self.session = self.send("Target.attachToTarget", targetId=target, flatten=True)["sessionId"]
        for domain in ("Page", "Runtime", "Log", "Network"):
            self.send(f"{domain}.enable")
        self.resize(width, height)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.process.terminate()
        self.process.wait()
        os.close(self.reader)
        os.close(self.writer)
        shutil.rmtree(self.profile, ignore_errors=True)

    def receive(self):
        limit = time.monotonic() + SECONDS
        while b"\0" not in self.buffer:
            if not select.select([self.reader], [], [], max(0, limit - time.monotonic()))[0]:
                raise TimeoutError(f"the browser says nothing for {SECONDS} s")
            part = os.read(self.reader, 1 << 20)
            if not part:
                raise EOFError("the browser has ended")
            self.buffer += part
        message, self.buffer = self.buffer.split(b"\0", 1)
        return json.loads(message)

    def send(self, method, **parameters):
        self.number += 1
        command = {"id": self.number, "method": method, "params": parameters}
        if self.session:
            command["sessionId"] = self.session
        os.write(self.writer, json.dumps(command).encode() + b"\0")
        while True:
            message = self.receive()
            if message.get("id") == self.number:
                if "error" in message:
                    raise RuntimeError(f"{method}: {message['error']}")
                return message["result"]
            self.note(message)

    def note(self, event):
        method, values = event.get("method"), event.get("params", {})
        self.events.append(method)
        if method == "Runtime.exceptionThrown":
            details = values["exceptionDetails"]
            self.faults.append(details.get("exception", {}).get("description", details["text"]))
        if method == "Log.entryAdded" and values["entry"]["level"] in ("error", "warning"):
            self.faults.append(values["entry"]["text"])
        if method == "Runtime.consoleAPICalled":
            self.faults.append(f"console.{values['type']}")
        if method == "Network.requestWillBeSent" and not values["request"]["url"].startswith(OWN):
            self.faults.append(f"asks for {values['request']['url']}")

    def open(self, path):
        self.events.clear()
        self.send("Page.navigate", url=f"file://{path}")
        while "Page.loadEventFired" not in self.events:
            self.note(self.receive())

    def evaluate(self, script):
        """The value of a JavaScript expression."""
        result = self.send("Runtime.evaluate", expression=script, returnByValue=True, awaitPromise=True)
        if "exceptionDetails" in result:
            raise RuntimeError(result["exceptionDetails"])
        return result["result"].get("value")

    def settle(self):
        """Waits until delayed drawing is complete."""
        self.evaluate(SETTLED)

    def draw(self, path, name):
        """Opens the page `name`; returns the faults until it was drawn."""
        self.faults.clear()
        self.open(path)
        self.settle()
        self.settle()
        drawn = self.evaluate("document.documentElement.dataset.ready") == "true"
        return list(self.faults) if drawn else [f"{name}: the page is not drawn", *self.faults]

    def resize(self, width, height):
        self.send("Emulation.setDeviceMetricsOverride", width=width, height=height, deviceScaleFactor=1, mobile=False)

    def prefer(self, scheme="light", media=""):
        features = [{"name": "prefers-color-scheme", "value": scheme}]
        self.send("Emulation.setEmulatedMedia", media=media, features=features)

    def press(self, key):
        for kind in ("keyDown", "keyUp"):
            self.send("Input.dispatchKeyEvent", type=kind, key=key, code=key)

    def point(self, x, y):
        self.send("Input.dispatchMouseEvent", type="mouseMoved", x=x, y=y)

    def picture(self, path, whole=True):
        self.settle()
        shot = self.send("Page.captureScreenshot", format="png", captureBeyondViewport=whole)
        with open(path, "wb") as file:
            file.write(base64.b64decode(shot["data"]))

    def paper(self, path):
        printed = self.send("Page.printToPDF", printBackground=True, preferCSSPageSize=True)
        with open(path, "wb") as file:
            file.write(base64.b64decode(printed["data"]))
