"""moto's stand-in for S3. Between its look at a condition and its write, no other request is served: its threads would
let two writers win now and then, which S3 does not."""

import io
import sys
import threading

from moto.moto_server.werkzeug_app import DomainDispatcherApplication, create_backend_app
from werkzeug.serving import run_simple

application = DomainDispatcherApplication(create_backend_app)
turn = threading.Lock()


def one_at_a_time(environ, start_response):
    # Read before its turn: a sender that stalls holds up nobody else.
    length = environ.get("CONTENT_LENGTH")
    body = environ["wsgi.input"]
    environ["wsgi.input"] = io.BytesIO(body.read(int(length)) if length else b"")
    with turn:
        return list(application(environ, start_response))


run_simple("127.0.0.1", int(sys.argv[1]), one_at_a_time, threaded=True)
