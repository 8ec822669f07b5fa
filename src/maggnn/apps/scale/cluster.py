"""A connection to Ray: to a cluster that is there, or to one that is started on this machine and ended afterwards."""

from __future__ import annotations

import contextlib
import logging
import os
import socket
from collections.abc import Iterator
from typing import NamedTuple

from maggnn.errors import InputError

LOCAL = "local"
"""The address that stands for a Ray of one's own on this machine."""

STORE_BYTES = 2**30
"""Object store of a Ray that is started here. Work waits for room in it, so it bounds the memory that a run takes."""

REACHED_S = 5.0
"""How long to wait for a host to answer; Ray itself would try for minutes."""

THREADS = {"OMP_WAIT_POLICY": "PASSIVE", "ONEDNN_PRIMITIVE_CACHE_CAPACITY": "16"}
"""What the command line sets for its own process (`apps/terminal.py`), for the processes of a cluster."""

QUIET = {"RAY_USAGE_STATS_ENABLED": "0"}
"""Nothing is sent anywhere."""


class Resources(NamedTuple):
    """What a cluster has."""

    cpus: int
    gpus: int


@contextlib.contextmanager
def connected(address: str) -> Iterator[Resources]:
    """Connect to the Ray at `address`; what was started for this block ends with it.

    Args:
        address: "local" starts Ray on this machine, "auto" finds the cluster that this machine belongs to, HOST:PORT
            is that of a head node, and ray://HOST:PORT that of a Ray client server. A process that is connected
            already stays so.
    """
    os.environ.update({name: value for name, value in QUIET.items() if name not in os.environ})
    import ray

    if address not in (LOCAL, "auto"):
        _check_reached(address)
    if ray.is_initialized():
        _silence()
        yield _resources()
        return
    try:
        ray.init(
            address=address,
            include_dashboard=False if address == LOCAL else None,
            object_store_memory=STORE_BYTES if address == LOCAL else None,
            log_to_driver=False,
            logging_level=logging.CRITICAL,
            runtime_env={"env_vars": THREADS},
        )
    except (ConnectionError, RuntimeError, ValueError, OSError) as error:
        raise InputError(f"--ray {address}: {_first_line(error)}") from error
    try:
        _silence()
        yield _resources()
    finally:
        ray.shutdown()


def _check_reached(address: str) -> None:
    """Refuse an address at which nobody listens, within seconds."""
    host, _, port = address.removeprefix("ray://").rpartition(":")
    if not host or not port.isdecimal() or not 0 < int(port) < 65536:
        raise InputError(f"--ray {address}: is no address: give HOST:PORT, ray://HOST:PORT, auto, or nothing at all")
    try:
        socket.create_connection((host.strip("[]"), int(port)), timeout=REACHED_S).close()
    except OSError as error:
        raise InputError(f"--ray {address}: no Ray answers there ({error.strerror or error})") from error


def _resources() -> Resources:
    import ray

    found = ray.cluster_resources()
    return Resources(int(found.get("CPU", 0)), int(found.get("GPU", 0)))


def _silence() -> None:
    """Progress and mistakes are told in lines of our own."""
    import ray.data

    logging.getLogger("ray").setLevel(logging.CRITICAL)
    logging.getLogger("ray.data").setLevel(logging.CRITICAL)
    context = ray.data.DataContext.get_current()
    context.enable_progress_bars = False
    context.print_on_execution_start = False


def _first_line(error: Exception) -> str:
    return next((line.strip() for line in str(error).splitlines() if line.strip()), type(error).__name__)
