"""Looks at a page in Chromium without a window, and says what a person would see.

    python3 test/e2e/browser.py CHROMIUM URL PICTURE.png WIDTHxHEIGHT light|dark CONDITION EXPRESSION [COLOUR...]

Waits until the JavaScript CONDITION holds, writes a picture of the page, and prints one line of JSON: the value of
EXPRESSION, what went wrong in the page's program, and how many points of the picture have each COLOUR ("#2166c4"), but
for what the eye does not see.
"""
import base64
import json
import os
import select
import subprocess
import sys
import tempfile
import time
import zlib

LIMIT_S = 60


class Browser:
    """Speaks to Chromium through two pipes: JSON texts that end in a zero byte."""

    def __init__(self, chromium, folder, width, height):
        to_browser, self.write_end = os.pipe()
        self.read_end, from_browser = os.pipe()
        self.number, self.rest, self.trouble = 0, b"", []

        def arrange():
            os.dup2(to_browser, 3)
            os.dup2(from_browser, 4)

        flags = ["--headless=new", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage", "--hide-scrollbars",
                 "--no-first-run", "--disable-extensions", "--disable-background-networking",
                 "--disable-component-update", "--remote-debugging-pipe",
                 f"--user-data-dir={folder}", f"--window-size={width},{height}"]
        # Descriptors 3 and 4 may be ours until the child has them.
        os.set_inheritable(to_browser, True)
        os.set_inheritable(from_browser, True)
        self.process = subprocess.Popen([chromium, *flags, "about:blank"], preexec_fn=arrange, close_fds=False,
                                        stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, start_new_session=True)
        os.close(to_browser)
        os.close(from_browser)
        self.deadline = time.monotonic() + LIMIT_S

    def message(self):
        while b"\0" not in self.rest:
            left = self.deadline - time.monotonic()
            if left <= 0 or not select.select([self.read_end], [], [], left)[0]:
                raise TimeoutError(f"the browser said nothing for {LIMIT_S} s")
            part = os.read(self.read_end, 1 << 20)
            if not part:
                raise EOFError("the browser is gone")
            self.rest += part
        text, self.rest = self.rest.split(b"\0", 1)
        return json.loads(text)

    def call(self, method, session=None, **parameters):
        self.number += 1
        request = {"id": self.number, "method": method, "params": parameters}
        if session:
            request["sessionId"] = session
        os.write(self.write_end, json.dumps(request).encode() + b"\0")
        while True:
            answer = self.message()
            if answer.get("id") == self.number:
                if "error" in answer:
                    raise RuntimeError(f"{method}: {answer['error']}")
                return answer["result"]
            self.note(answer)

    def note(self, event):
        if event.get("method") == "Runtime.exceptionThrown":
            exception = event["params"]["exceptionDetails"].get("exception", {})
            self.trouble.append(exception.get("description", "an exception"))
        if event.get("method") == "Log.entryAdded" and event["params"]["entry"]["level"] == "error":
            self.trouble.append(event["params"]["entry"]["text"])


def evaluate(browser, session, expression):
    result = browser.call("Runtime.evaluate", session, expression=expression, returnByValue=True)
    if "exceptionDetails" in result:
        raise RuntimeError(f"{expression}: {result['exceptionDetails']}")
    return result["result"].get("value")


def pixels(png):
    """Rows of (r, g, b)."""
    at, data, header = 8, b"", None
    while at < len(png):
        size, kind = int.from_bytes(png[at:at + 4], "big"), png[at + 4:at + 8]
        if kind == b"IHDR":
            header = png[at + 8:at + 8 + size]
        if kind == b"IDAT":
            data += png[at + 8:at + 8 + size]
        at += size + 12
    width, height = int.from_bytes(header[:4], "big"), int.from_bytes(header[4:8], "big")
    channels = {2: 3, 6: 4}[header[9]]
    raw, above, rows, stride = zlib.decompress(data), bytearray(width * channels), [], width * channels
    for y in range(height):
        begin = y * (stride + 1)
        how, row = raw[begin], bytearray(raw[begin + 1:begin + 1 + stride])
        for i in range(stride if how else 0):
            a = row[i - channels] if i >= channels else 0
            b = above[i]
            c = above[i - channels] if i >= channels else 0
            if how == 1:
                row[i] = (row[i] + a) & 255
            elif how == 2:
                row[i] = (row[i] + b) & 255
            elif how == 3:
                row[i] = (row[i] + (a + b) // 2) & 255
            else:
                p = a + b - c
                nearest = min((abs(p - a), 0, a), (abs(p - b), 1, b), (abs(p - c), 2, c))[2]
                row[i] = (row[i] + nearest) & 255
        rows.append([tuple(row[i:i + 3]) for i in range(0, stride, channels)])
        above = row
    return rows


def count(rows, colour):
    want = tuple(int(colour[i:i + 2], 16) for i in (1, 3, 5))
    return sum(max(abs(p - w) for p, w in zip(pixel, want)) <= 12 for row in rows for pixel in row)


def main(chromium, url, picture, size, scheme, condition, expression, *colours):
    width, height = (int(n) for n in size.split("x"))
    with tempfile.TemporaryDirectory(prefix="browser-", ignore_cleanup_errors=True) as folder:
        browser = Browser(chromium, folder, width, height)
        try:
            target = browser.call("Target.createTarget", url="about:blank")["targetId"]
            session = browser.call("Target.attachToTarget", targetId=target, flatten=True)["sessionId"]
            for domain in ("Runtime", "Log", "Page"):
                browser.call(domain + ".enable", session)
            browser.call("Emulation.setDeviceMetricsOverride", session, width=width, height=height, deviceScaleFactor=1,
                         mobile=False)
            browser.call("Emulation.setEmulatedMedia", session,
                         features=[{"name": "prefers-color-scheme", "value": scheme}])
            browser.call("Page.navigate", session, url=url)
            while not evaluate(browser, session, f"document.readyState == 'complete' && Boolean({condition})"):
                if time.monotonic() > browser.deadline:
                    raise TimeoutError(f"never held: {condition}; the page: "
                                       f"{evaluate(browser, session, 'document.body.innerText')}")
                time.sleep(0.1)
            png = base64.b64decode(browser.call("Page.captureScreenshot", session, format="png")["data"])
            with open(picture, "wb") as out:
                out.write(png)
            rows = pixels(png) if colours else []
            print(json.dumps({"value": evaluate(browser, session, expression), "trouble": browser.trouble,
                              "colours": {colour: count(rows, colour) for colour in colours}}))
        finally:
            os.killpg(browser.process.pid, 9)
            browser.process.wait()


if __name__ == "__main__":
    main(*sys.argv[1:])
