# SPDX-License-Identifier: BSD-3-Clause
"""Network namespaces without names, which need no cleaning up.

A namespace belongs to a thread, and a socket stays in the namespace in which it was created. So
this module creates the namespace in a new thread, holds it by a file descriptor, and runs functions
in threads that enter it. The kernel removes it once the descriptor is closed and the last process
and socket in it are gone, also after a crash. Parallel runs do not share namespaces.
"""

import ctypes
import os
import socket
import subprocess
import threading

CLONE_NEWNET = 0x40000000
CLONE_NEWNS = 0x00020000

_libc = ctypes.CDLL(None, use_errno=True)


def _check(result, what):
    if result != 0:
        number = ctypes.get_errno()
        raise OSError(number, f"{what}: {os.strerror(number)}")


def _run_in_thread(function):
    """Calls the function in a new thread; returns its result or raises its exception."""
    outcome = {}

    def body():
        try:
            outcome["value"] = function()
        except BaseException as error:  # raised again in the thread of the caller
            outcome["error"] = error

    thread = threading.Thread(target=body, daemon=True)
    thread.start()
    thread.join()
    if "error" in outcome:
        raise outcome["error"]
    return outcome["value"]


class _SocketModule:
    """Replaces the module `socket`: makes sockets in a namespace.

    For clients that take a socket module as an argument, such as pymemcache's.
    """

    def __init__(self, netspace):
        self._netspace = netspace

    def __getattr__(self, name):
        return getattr(socket, name)

    def socket(self, *args, **kwargs):
        return self._netspace.run(socket.socket, *args, **kwargs)

    def create_connection(self, *args, **kwargs):
        return self._netspace.run(socket.create_connection, *args, **kwargs)


class NetSpace:
    """A new network namespace. Raises OSError where the kernel does not permit that."""

    def __init__(self):
        def create():
            _check(_libc.unshare(CLONE_NEWNET), "unshare(CLONE_NEWNET)")
            return os.open("/proc/thread-self/ns/net", os.O_RDONLY | os.O_CLOEXEC)

        self._fd = _run_in_thread(create)
        self.socket_module = _SocketModule(self)

    def run(self, function, *args, **kwargs):
        """Calls the function inside and returns its result. Sockets that it makes stay inside."""

        def enter_and_call():
            _check(_libc.setns(self._fd, CLONE_NEWNET), "setns")
            return function(*args, **kwargs)

        return _run_in_thread(enter_and_call)

    def popen(self, *args, **kwargs):
        """A subprocess.Popen whose process runs inside."""
        return self.run(subprocess.Popen, *args, **kwargs)

    @property
    def entry(self):
        """The first words of a command that runs inside without run()."""
        return ["nsenter", f"--net={self.path}"]

    @property
    def path(self):
        """The namespace as a file, for programs that move something into it."""
        return f"/proc/{os.getpid()}/fd/{self._fd}"

    def close(self):
        if self._fd >= 0:
            os.close(self._fd)
            self._fd = -1


class HostSpace:
    """The namespace of the caller, with the methods of NetSpace."""

    socket_module = socket
    entry = ()

    def run(self, function, *args, **kwargs):
        return function(*args, **kwargs)

    def popen(self, *args, **kwargs):
        return subprocess.Popen(*args, **kwargs)

    def close(self):
        pass


def private_mounts():
    """Makes later mounts of this process and its children private to them."""
    _check(_libc.unshare(CLONE_NEWNS), "unshare(CLONE_NEWNS)")
    subprocess.run(["mount", "--make-rprivate", "/"], check=True, capture_output=True)


def why_not():
    """None if namespaces and TAP devices can be made here, else the reason."""
    try:
        NetSpace().close()
    except OSError as error:
        return f"needs root or CAP_SYS_ADMIN for a network namespace ({error})"
    try:
        os.close(os.open("/dev/net/tun", os.O_RDWR | os.O_CLOEXEC))
    except OSError as error:
        return f"needs a usable /dev/net/tun ({error.strerror})"
    return None


class Shared:
    """A namespace that outlives the servers in it: their close() leaves it open."""

    def __init__(self, space):
        self._space = space

    def __getattr__(self, name):
        return getattr(self._space, name)

    def close(self):
        pass
