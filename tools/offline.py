"""Refuses connections to other machines, so that nothing in a test depends on one."""

import ipaddress
import socket


def block_network():
    """From now on, Python's sockets connect only inside this machine."""
    socket.socket.connect = _only_here(socket.socket.connect)
    socket.socket.connect_ex = _only_here(socket.socket.connect_ex)


def _only_here(connect):
    def guarded(self, address):
        if not _is_here(self.family, address):
            raise OSError(f"A connection to {address} was refused: tests run offline.")
        return connect(self, address)

    return guarded


def _is_here(family, address):
    if family not in (socket.AF_INET, socket.AF_INET6):
        return True  # a pipe or a Unix socket stays on the machine
    host = address[0]
    if host == "localhost":
        return True
    try:
        return ipaddress.ip_address(host.split("%")[0]).is_loopback
    except ValueError:
        return False  # a name to be looked up
