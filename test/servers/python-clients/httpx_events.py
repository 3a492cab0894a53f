"""Reads a stream of Server-Sent Events with httpx, and prints the data of each event as it arrives."""

import sys

import httpx

with httpx.stream("GET", sys.argv[1], headers={"accept": "text/event-stream"}, timeout=60) as response:
    for line in response.iter_lines():
        if line.startswith("data: "):
            print(line[len("data: "):], flush=True)
