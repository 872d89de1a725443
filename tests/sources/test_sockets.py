"""Sockets by /proc/PID/net, on this test's own connections."""

import os
import socket
from contextlib import ExitStack
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bubblewatch.sources.sockets import (
    connection_count,
    listening_ports,
    parse_table,
    socket_inodes,
    sockets_of,
)

SELF = Path(f"/proc/{os.getpid()}")


@pytest.mark.parametrize(("family", "host"), [(socket.AF_INET, "127.0.0.1"), (socket.AF_INET6, "::1")])
def test_clients_of_a_port_are_counted_once_each(family, host):
    with ExitStack() as stack:
        server = stack.enter_context(socket.socket(family))
        server.bind((host, 0))
        server.listen(8)
        port = server.getsockname()[1]
        assert connection_count(sockets_of(SELF), port) == 0
        for _ in range(3):
            stack.enter_context(socket.create_connection((host, port)))
        sockets = sockets_of(SELF)
        assert connection_count(sockets, port) == 3
        assert any(each.listens_on(port) for each in sockets)
        assert port in listening_ports(sockets, socket_inodes(SELF))
        assert listening_ports(sockets, frozenset()) == ()


def test_a_process_that_is_gone_has_no_sockets():
    assert sockets_of(Path("/proc/999999999")) is None
    assert socket_inodes(Path("/proc/999999999")) is None


TABLE = """\
  sl  local_address rem_address   st tx_queue rx_queue tr tm->when retrnsmt   uid  timeout inode
   0: 0100007F:7530 00000000:0000 0A 00000000:00000000 00:00000000 00000000     0        0 1078 1 000000009 100 0 0 10 0
   1: 0100007F:7530 0100007F:A0C2 01 00000000:00000000 00:00000000 00000000     0        0 1079 1 000000009 20 4 0 10 -1
   2: 0100007F:A0C2 0100007F:7530 01 00000000:00000000 00:00000000 00000000     0        0 1080 1 000000009 20 4 0 10 -1
   3: 0100007F:7530 0100007F:A0C4 06 00000000:00000000 00:00000000 00000000     0        0 0 1 000000009 20 4 0 10 -1
"""


def test_only_established_connections_to_the_port_count():
    sockets = tuple(parse_table(TABLE))
    assert len(sockets) == 4
    assert connection_count(sockets, 30000) == 1
    assert listening_ports(sockets, frozenset({1078, 1079})) == (30000,)


@given(st.text())
def test_any_text_is_survived(text):
    assert all(each.local_port >= 0 for each in parse_table(TABLE + text) if each.inode in {1078, 1079})
