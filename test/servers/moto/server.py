"""moto's emulator of S3. It serves one request at a time, because its threads would otherwise let two conditional writers
win now and then, which S3 does not."""

import io
import sys
import threading

from moto.moto_server.werkzeug_app import DomainDispatcherApplication, create_backend_app
from werkzeug.serving import run_simple

application = DomainDispatcherApplication(create_backend_app)
turn = threading.Lock()


def one_at_a_time(environ, start_response):
    # Read before taking the lock, so that a slow sender does not delay other requests.
    length = environ.get("CONTENT_LENGTH")
    body = environ["wsgi.input"]
    environ["wsgi.input"] = io.BytesIO(body.read(int(length)) if length else b"")
    with turn:
        return list(application(environ, start_response))


run_simple("127.0.0.1", int(sys.argv[1]), one_at_a_time, threaded=True)
