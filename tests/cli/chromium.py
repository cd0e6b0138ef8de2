"""A headless Chromium, driven through the pipe of its DevTools protocol."""

import base64
import json
import os
import pathlib
import select
import shutil
import signal
import subprocess
import time

from conftest import DEADLINE, processes


def missing():
    """Why no page can be looked at here; empty if one can."""
    return "" if shutil.which("chromium") else "chromium is not installed (Debian: apt-get install chromium)"


class Chromium:
    """One page. Keeps what it says and asks for: `errors` (console, exceptions, log) and `requests`."""

    def __init__(self, folder):
        self.folder = pathlib.Path(folder)
        to_read, self.writes = os.pipe()
        self.reads, to_write = os.pipe()

        def pipes():  # Chromium reads descriptor 3 and writes 4
            spare = [os.dup(to_read), os.dup(to_write)]
            os.dup2(spare[0], 3)
            os.dup2(spare[1], 4)

        self.process = subprocess.Popen(
            ["chromium", "--headless=new", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage", "--hide-scrollbars",
             "--no-first-run", "--disable-background-networking", "--disable-component-update", "--disable-extensions",
             f"--user-data-dir={self.folder / 'profile'}", "--remote-debugging-pipe", "about:blank"],
            preexec_fn=pipes, close_fds=False, start_new_session=True, stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, env=os.environ | {"HOME": str(self.folder)})
        os.close(to_read)
        os.close(to_write)
        self.rest, self.number, self.session = b"", 0, None
        self.errors, self.requests, self.events = [], [], []
        target = self.call("Target.createTarget", url="about:blank")["targetId"]
        self.session = self.call("Target.attachToTarget", targetId=target, flatten=True)["sessionId"]
        for domain in ("Page", "Runtime", "Log", "Network"):
            self.call(f"{domain}.enable")

    def call(self, method, **parameters):
        self.number += 1
        message = {"id": self.number, "method": method, "params": parameters}
        if self.session and not method.startswith(("Target.", "Browser.")):
            message["sessionId"] = self.session
        os.write(self.writes, json.dumps(message).encode() + b"\0")
        while True:
            answer = self._message()
            if answer.get("id") == self.number:
                assert "error" not in answer, f"{method}: {answer['error']}"
                return answer["result"]

    def _message(self):
        end = time.monotonic() + DEADLINE
        while b"\0" not in self.rest:
            assert time.monotonic() < end and select.select([self.reads], [], [], DEADLINE)[0], "Chromium does not answer"
            piece = os.read(self.reads, 1 << 20)
            assert piece, "Chromium ended"
            self.rest += piece
        text, self.rest = self.rest.split(b"\0", 1)
        message = json.loads(text)
        method, parameters = message.get("method"), message.get("params", {})
        if method == "Network.requestWillBeSent":
            self.requests.append(parameters["request"]["url"])
        elif method in ("Runtime.exceptionThrown", "Log.entryAdded") or (
                method == "Runtime.consoleAPICalled" and parameters["type"] in ("error", "warning", "assert")):
            self.errors.append(json.dumps(parameters)[:2000])
        elif method:
            self.events.append(method)
        return message

    def open(self, place, width, height=900, dark=False):
        self.call("Emulation.setDeviceMetricsOverride", width=width, height=height, deviceScaleFactor=1, mobile=False)
        self.call("Emulation.setEmulatedMedia", features=[{"name": "prefers-color-scheme", "value": "dark" if dark else "light"}])
        self.events.clear()
        self.call("Page.navigate", url=place if str(place).startswith("http:") else pathlib.Path(place).as_uri())
        while "Page.loadEventFired" not in self.events:
            self._message()
        self.evaluate("new Promise(done => requestAnimationFrame(() => requestAnimationFrame(done)))")

    def evaluate(self, script):
        answer = self.call("Runtime.evaluate", expression=script, returnByValue=True, awaitPromise=True)
        assert "exceptionDetails" not in answer, answer["exceptionDetails"]
        return answer["result"].get("value")

    def press(self, key, text="", shift=False):
        for kind in ("keyDown", "keyUp"):
            self.call("Input.dispatchKeyEvent", type=kind, key=key, text=text if kind == "keyDown" else "", modifiers=8 if shift else 0)

    def screenshot(self, path):
        size = self.call("Page.getLayoutMetrics")["cssContentSize"]
        clip = {"x": 0, "y": 0, "width": size["width"], "height": size["height"], "scale": 1}
        image = self.call("Page.captureScreenshot", captureBeyondViewport=True, clip=clip)["data"]
        pathlib.Path(path).write_bytes(base64.b64decode(image))

    def close(self):
        session = self.process.pid
        os.close(self.writes)  # without its pipe it ends
        try:
            self.process.wait(timeout=10)
        except subprocess.TimeoutExpired:
            pass
        for pid in processes(session):
            try:
                os.kill(pid, signal.SIGKILL)
            except ProcessLookupError:
                pass
        self.process.wait()
        os.close(self.reads)
