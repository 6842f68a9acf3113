# SPDX-License-Identifier: BSD-3-Clause
"""TLS for tests: certificates in files, and sockets that encrypt.

`UCACHED_TLS=1` in the environment lets every server on TCP serve TLS, and every Connection use it.
"""

import atexit
import functools
import os
import pathlib
import shutil
import ssl
import subprocess
import tempfile
import threading

ALL = os.environ.get("UCACHED_TLS", "") == "1"


def _openssl(*args):
    subprocess.run(["openssl", *map(str, args)], check=True, capture_output=True, timeout=60)


class Certificates:
    """A folder with an authority (ca.pem) and what it has signed (NAME.pem, NAME.key)."""

    def __init__(self, folder):
        self.folder = pathlib.Path(folder)
        self._make_authority("ca")

    def path(self, name):
        return str(self.folder / name)

    def _make_authority(self, name):
        _openssl("req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes",
                 "-keyout", self.path(f"{name}.key"), "-out", self.path(f"{name}.pem"),
                 "-days", 2, "-subj", f"/CN={name}")  # fmt: skip

    def make(self, name, days=2, authority="ca", key=("ec", "ec_paramgen_curve:P-256"), alt=None):
        """Makes and signs a certificate; returns the paths of it and of its key.

        `alt` are its names besides the common one: "DNS:localhost,IP:127.0.0.1".
        """
        if not os.path.exists(self.path(f"{authority}.pem")):
            self._make_authority(authority)
        request = self.path(f"{name}.csr")
        _openssl("req", "-newkey", key[0], "-pkeyopt", key[1], "-nodes",
                 "-keyout", self.path(f"{name}.key"), "-out", request, "-subj", f"/CN={name}",
                 *(["-addext", f"subjectAltName={alt}"] if alt else []))
        _openssl("x509", "-req", "-in", request, "-copy_extensions", "copy",
                 "-CA", self.path(f"{authority}.pem"),
                 "-CAkey", self.path(f"{authority}.key"), "-CAcreateserial", "-days", days,
                 "-out", self.path(f"{name}.pem"))  # fmt: skip
        return self.path(f"{name}.pem"), self.path(f"{name}.key")


@functools.cache
def shared():
    """Certificates of this process, with those of a `server` and a `client`."""
    folder = tempfile.mkdtemp(prefix="ucached-tls-")
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    os.chmod(folder, 0o755)
    certificates = Certificates(folder)
    certificates.make("server")
    certificates.make("client")
    for name in os.listdir(folder):
        os.chmod(os.path.join(folder, name), 0o644)
    return certificates


def server_args(certificates=None, name="server"):
    """Options of a server that has TLS on its TCP port."""
    certificates = certificates or shared()
    words = f"ssl_chain_cert={certificates.path(name + '.pem')},"
    return ["-Z", "-o", words + f"ssl_key={certificates.path(name + '.key')}"]


def context(certificates=None, client=None, version=None):
    """A client's context: trusts the authority; `client` names a certificate to show."""
    certificates = certificates or shared()
    made = ssl.create_default_context(cafile=certificates.path("ca.pem"))
    made.check_hostname = False
    if version:
        made.minimum_version = made.maximum_version = version
    if client:
        made.load_cert_chain(certificates.path(f"{client}.pem"), certificates.path(f"{client}.key"))
    return made


class Socket:
    """A connected socket with TLS. One thread may send while another receives.

    Other than ssl.SSLSocket it can end its stream (shutdown) and still receive.
    """

    def __init__(self, raw, client_context, session=None):
        self.raw = raw
        self._in = ssl.MemoryBIO()
        self._out = ssl.MemoryBIO()
        self._lock = threading.Lock()  # of the TLS object
        self._sending = threading.Lock()  # keeps records in order
        self.tls = client_context.wrap_bio(self._in, self._out, session=session)
        try:
            self._until_done(self.tls.do_handshake)
        except BaseException:
            raw.close()
            raise

    def __getattr__(self, name):  # settimeout, setsockopt, ...
        return getattr(self.raw, name)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.close()

    def _flush(self):
        """Sends what reading has made: an alert, an answer to a key update. Mostly nothing."""
        with self._lock:
            if not self._out.pending:
                return  # without waiting for a thread that sends
        with self._sending:
            with self._lock:
                data = self._out.read()
            if data:
                self.raw.sendall(data)

    def _until_done(self, function):
        """Repeats a function of the TLS object until it needs no more bytes of the peer."""
        while True:
            try:
                with self._lock:
                    result = function()
                self._flush()
                return result
            except ssl.SSLWantReadError:
                self._flush()
            except ssl.SSLError:
                self._flush()  # an alert
                raise
            data = self.raw.recv(65536)
            with self._lock:
                self._in.write(data) if data else self._in.write_eof()

    def sendall(self, data):
        view = memoryview(data)
        for at in range(0, len(view), 1 << 20):
            with self._sending:
                with self._lock:
                    self.tls.write(view[at : at + (1 << 20)])
                    records = self._out.read()
                self.raw.sendall(records)

    def seal(self, data):
        """The records of these bytes, which the caller sends through `raw`."""
        with self._sending, self._lock:
            self.tls.write(data)
            return self._out.read()

    def send(self, data):
        self.sendall(data)
        return len(data)

    def recv(self, count):
        try:
            return self._until_done(lambda: self.tls.read(count))
        except (ssl.SSLZeroReturnError, ssl.SSLEOFError):
            return b""
        except ssl.SSLError as error:
            if "UNEXPECTED_EOF" in str(error):
                return b""
            raise

    def shutdown(self, how):
        """Sends close_notify; bytes can still be received."""
        with self._lock:
            try:
                self.tls.unwrap()
            except ssl.SSLWantReadError:
                pass
        self._flush()

    def close(self):
        self.raw.close()
