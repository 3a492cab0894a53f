"""Reads a stream of Server-Sent Events with requests, and prints the data of each event as it arrives."""

import sys

import requests

with requests.get(sys.argv[1], headers={"accept": "text/event-stream"}, stream=True, timeout=(5, 60)) as response:
    for line in response.iter_lines():
        if line.startswith(b"data: "):
            print(line[len(b"data: "):].decode(), flush=True)
