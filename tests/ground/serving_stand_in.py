#!/opt/tensorflow/current/bin/python
"""A stand-in of TensorFlow Serving's tensorflow_model_server, for tests: no image of it can be had.

It has the same flags, the same REST interface (GET /v1/models/NAME, GET .../metadata, POST
...:predict) and watches the same directory of versions. A SavedModel is loaded by the real
TensorFlow. As TensorFlow Serving does with its own word of versions (`latest`, one of them), it
serves the newest version, and keeps the former until the newest has loaded; one that does not load
ends with its error, and the former stays. It has no gRPC: that port only listens.
"""

import argparse
import http.server
import json
import os
import re
import socket
import sys
import threading
import time

parser = argparse.ArgumentParser()
parser.add_argument("--version", action="store_true")
parser.add_argument("--model_name", default="model")
parser.add_argument("--model_base_path", default="/models/model")
parser.add_argument("--rest_api_port", type=int, default=8501)
parser.add_argument("--port", type=int, default=8500)
parser.add_argument("--file_system_poll_wait_seconds", type=float, default=1)
parser.add_argument("--max_num_load_retries", type=int, default=5)
parser.add_argument("--load_retry_interval_micros", type=int, default=60000000)
parser.add_argument("--per_process_gpu_memory_fraction", type=float, default=0)
options = parser.parse_args()

import tensorflow as tf  # noqa: E402  after the flags, which may be wrong

if options.version:
    release = tf.__version__
    words = f"TensorFlow ModelServer: {release}+stand-in\nTensorFlow Library: {release}\n"
    sys.stdout.write(words)
    sys.exit(0)

# {version: [state, error code, message, signature or None]}
states = {}
held = threading.Lock()


def load(number, path):
    """Loads a version, and ends the others where it could be loaded."""
    states[number] = ["LOADING", "OK", "", None]
    for _attempt in range(options.max_num_load_retries + 1):
        try:
            model = tf.saved_model.load(path)
            function = model.signatures["serving_default"]
        except Exception as error:
            message = str(error)
            time.sleep(options.load_retry_interval_micros / 1e6)
            continue
        with held:
            states[number] = ["AVAILABLE", "OK", "", (model, function)]
            for other in states:
                if other != number:
                    states[other] = ["END", "OK", "", None]
        return
    states[number] = ["END", "NOT_FOUND", message, None]


def watch():
    aspired = None
    while True:
        names = [name for name in os.listdir(options.model_base_path) if name.isdigit()]
        newest = max(names, key=int, default=None)
        if newest is not None and newest != aspired:
            aspired = newest
            load(int(newest), os.path.join(options.model_base_path, newest))
        time.sleep(options.file_system_poll_wait_seconds)


def status():
    rows = []
    for number in sorted(states, reverse=True):
        state, code, message, _model = states[number]
        row = {"version": str(number), "state": state}
        rows.append({**row, "status": {"error_code": code, "error_message": message}})
    return {"model_version_status": rows}


def signature():
    for number in sorted(states, reverse=True):
        if states[number][0] == "AVAILABLE":
            return states[number][3][1]
    raise LookupError(f"Servable not found for request: Latest({options.model_name})")


def predicted(body):
    function = signature()
    specs = function.structured_input_signature[1]
    if "instances" in body:
        (name,) = specs
        inputs = {name: tf.constant(body["instances"], specs[name].dtype)}
    else:
        given = body["inputs"]
        if not isinstance(given, dict):
            given = {next(iter(specs)): given}
        inputs = {name: tf.constant(given[name], specs[name].dtype) for name in specs}
    outputs = {name: value.numpy().tolist() for name, value in function(**inputs).items()}
    answer = next(iter(outputs.values())) if len(outputs) == 1 else outputs
    return {"predictions" if "instances" in body else "outputs": answer}


class Handler(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    path_of = re.compile(rf"/v1/models/{re.escape(options.model_name)}(/metadata|:predict)?")

    def answer(self, status_code, body):
        data = json.dumps(body, indent=1).encode()
        self.send_response(status_code)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)

    def serve(self, verb):
        match = self.path_of.fullmatch(self.path)
        if match is None:
            return self.answer(404, {"error": f"Malformed request: {verb} {self.path}"})
        try:
            if verb == "POST" and match[1] == ":predict":
                length = int(self.headers.get("Content-Length") or 0)
                return self.answer(200, predicted(json.loads(self.rfile.read(length))))
            if verb == "GET" and match[1] == "/metadata":
                names = sorted(signature().structured_input_signature[1])
                spec = {"name": options.model_name, "signature_name": ""}
                inputs = {"metadata": {"signature_def": {"inputs": names}}}
                return self.answer(200, {"model_spec": spec, **inputs})
            if verb == "GET" and match[1] is None:
                return self.answer(200, status())
        except LookupError as error:
            return self.answer(404, {"error": str(error)})
        except Exception as error:
            return self.answer(400, {"error": str(error)[:1000]})
        return self.answer(404, {"error": f"Malformed request: {verb} {self.path}"})

    def do_GET(self):
        self.serve("GET")

    def do_POST(self):
        self.serve("POST")

    def log_message(self, *words):
        pass


sys.stderr.write("a stand-in of TensorFlow Serving begins\n")
threading.Thread(target=watch, daemon=True).start()
grpc = socket.create_server(("", options.port))
http.server.ThreadingHTTPServer(("", options.rest_api_port), Handler).serve_forever()
