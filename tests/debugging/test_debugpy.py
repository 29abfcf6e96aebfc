"""An editor's debugger: debugpy, driven over its protocol, stops in the files of a dump."""

import contextlib
import json
import os
import socket
import subprocess
import sys
import time

import pytest

PROGRAM = """
import sys
import torch
import debugpy
import pellucid

debugpy.listen(("127.0.0.1", int(sys.argv[2])))
debugpy.wait_for_client()

def program(x):
    y = x.sin()
    print("between")
    return (y + 1).cos()

compiled = pellucid.compile(program, backend="eager")
x = torch.zeros(2)
with pellucid.debug(sys.argv[1]) as dump:
    dump.run_untraced(compiled, x)
    print("ready")
    compiled(x)
print("done")
"""


class Client:
    """The side of the editor."""

    def __init__(self, port):
        for _ in range(300):
            with contextlib.suppress(ConnectionRefusedError):
                self.socket = socket.create_connection(("127.0.0.1", port), timeout=60)
                break
            time.sleep(0.1)
        self.stream = self.socket.makefile("rwb")
        self.count = 0
        self.events = []

    def send(self, command, **arguments):
        self.count += 1
        body = json.dumps({"seq": self.count, "type": "request", "command": command, "arguments": arguments}).encode()
        self.stream.write(b"Content-Length: %d\r\n\r\n%s" % (len(body), body))
        self.stream.flush()
        return self.count

    def read(self):
        length = 0
        while line := self.stream.readline().strip():
            if line.lower().startswith(b"content-length:"):
                length = int(line.split(b":")[1])
        return json.loads(self.stream.read(length))

    def ask(self, command, **arguments):
        """The answer's body."""
        number = self.send(command, **arguments)
        while True:
            message = self.read()
            if message["type"] == "response" and message["request_seq"] == number:
                assert message["success"], message
                return message.get("body")
            if message["type"] == "event":
                self.events.append(message)

    def wait_for(self, event):
        while True:
            for at, message in enumerate(self.events):
                if message["event"] == event:
                    del self.events[at]
                    return message.get("body")
            message = self.read()
            if message["type"] == "event":
                self.events.append(message)

    def where(self):
        """Of the thread that has stopped: its number, and (file, line, frame) of each frame."""
        thread = self.wait_for("stopped")["threadId"]
        frames = self.ask("stackTrace", threadId=thread)["stackFrames"]
        return thread, [(frame["source"]["path"], frame["line"], frame["id"]) for frame in frames]

    def value(self, frame, expression):
        return self.ask("evaluate", expression=expression, frameId=frame, context="watch")["result"]


def free_port():
    with socket.socket() as one:
        one.bind(("127.0.0.1", 0))
        return one.getsockname()[1]


def line_of(file, text):
    return next(at for at, line in enumerate(open(file).read().splitlines(), 1) if text in line)


def test_L11_L13_debugpy_stops_in_graphs_and_regions(tmp_path):
    pytest.importorskip("debugpy")
    script, dump, port = tmp_path / "program.py", tmp_path / "dump", free_port()
    script.write_text(PROGRAM)
    said = tmp_path / "said.txt"
    with said.open("w") as output:
        command = [sys.executable, "-Xfrozen_modules=off", str(script), str(dump), str(port)]
        program = subprocess.Popen(command, stdout=output, stderr=output, env=dict(os.environ))
    try:
        client = Client(port)
        client.ask("initialize", adapterID="test", pathFormat="path", linesStartAt1=True, columnsStartAt1=True)
        client.send("attach", justMyCode=False)
        client.wait_for("initialized")
        place = {"path": str(script)}
        client.ask("setBreakpoints", source=place, breakpoints=[{"line": line_of(script, 'print("ready")')}])
        client.ask("configurationDone")
        thread, frames = client.where()
        assert frames[0][0] == str(script)
        graph = max(dump.glob("__compiled_fn_*.captured.py"))
        region = next(dump.glob("__resume_at_*.py"))
        for file, text in ((graph, "add.cos()"), (region, "return ")):
            lines = [at for at, line in enumerate(file.read_text().splitlines(), 1) if text in line]
            client.ask("setBreakpoints", source={"path": str(file)}, breakpoints=[{"line": lines[-1]}])
        client.ask("continue", threadId=thread)
        stops = []
        for _ in range(2):
            thread, frames = client.where()
            stops.append(os.path.basename(frames[0][0]))
            if frames[0][0] == str(graph):
                assert client.value(frames[0][2], "add.tolist()") == "[1.0, 1.0]"
            client.ask("continue", threadId=thread)
        assert sorted(stops) == sorted([graph.name, region.name])
        client.wait_for("terminated")
        client.send("disconnect")
        assert program.wait(timeout=60) == 0 and "done" in said.read_text(), said.read_text()
    finally:
        program.kill()
        program.wait()
