"""A connection to Ray: to a cluster that is there, or to one that is started on this machine and ended afterwards."""

from __future__ import annotations

import contextlib
import logging
import os
import queue
import socket
import threading
import time
from collections.abc import Callable, Iterable, Iterator
from typing import Any, NamedTuple

from maggnn.errors import InputError

LOCAL = "local"
"""The address that stands for a Ray of one's own on this machine."""

STORE_BYTES = 2**30
"""Object store of a Ray that is started here. Work waits for room in it, so it bounds the memory that a run takes."""

REACHED_S = 5.0
"""How long to wait for a host to answer; Ray itself would try for minutes."""

LOST_S = 60.0
"""How long actors for which the cluster has become too small wait for a node; after that the command ends."""

LOOK_EVERY_S = 2.0
"""How often the size of the cluster is looked at while no row arrives."""

THREADS = {"OMP_WAIT_POLICY": "PASSIVE", "ONEDNN_PRIMITIVE_CACHE_CAPACITY": "16", "LRU_CACHE_CAPACITY": "16"}
"""What the command line sets for its own process (`apps/terminal.py`), for the processes of a cluster."""

QUIET = {"RAY_USAGE_STATS_ENABLED": "0", "RAY_ENABLE_AUTO_CONNECT": "0"}
"""Nothing is sent anywhere, and a thread that is left behind (`while_it_fits`) does not connect again by itself."""


class Resources(NamedTuple):
    """What a cluster has, or what actors claim of it."""

    cpus: float
    gpus: float


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


def while_it_fits(
    rows: Iterable[Any],
    claimed: Resources,
    cluster: Callable[[], Resources] | None = None,
    patience_s: float = LOST_S,
    look_every_s: float = LOOK_EVERY_S,
) -> Iterator[Any]:
    """The rows that actors make, as long as the cluster has room for these actors.

    Ray waits without end for a place for the actors of a node that is gone. Here the wait has an end.

    Args:
        rows: are taken by a thread, which is left behind where they stop to come.
        claimed: by all actors together.
        cluster: what the nodes that are alive have; None asks Ray.
        patience_s: how long the cluster may be too small.
        look_every_s: how often that is looked at while no row comes.
    """
    found: queue.Queue[tuple[str, Any]] = queue.Queue(maxsize=1)
    threading.Thread(target=_put_each, args=(rows, found), daemon=True).start()
    fits_until = time.monotonic()
    while True:
        try:
            what, value = found.get(timeout=look_every_s)
        except queue.Empty:
            alive = (cluster or _resources)()
            if alive.cpus >= claimed.cpus and alive.gpus >= claimed.gpus:
                fits_until = time.monotonic()
            elif time.monotonic() - fits_until > patience_s:
                raise InputError(
                    f"the cluster has lost nodes: {alive.cpus:g} CPUs and {alive.gpus:g} GPUs are left, and "
                    f"{claimed.cpus:g} and {claimed.gpus:g} are needed; what is finished is kept, and the same "
                    "command goes on with the nodes that it finds"
                ) from None
            continue
        if what == "row":
            yield value
        elif what == "error":
            raise _told(value)
        else:
            return


def _put_each(rows: Iterable[Any], found: queue.Queue[tuple[str, Any]]) -> None:
    try:
        for row in rows:
            found.put(("row", row))
        found.put(("end", None))
    except Exception as error:
        found.put(("error", error))


def _told(error: Exception) -> Exception:
    """What Ray lost for good (an object, an actor that was killed) in one line; mistakes of our own as they are."""
    from ray.exceptions import RayError, RayTaskError

    if not isinstance(error, RayError) or isinstance(error, RayTaskError):
        return error
    return InputError(
        f"Ray lost what it cannot make again ({_first_line(error)}); what is finished is kept, and the same command "
        "goes on"
    )


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
    return Resources(found.get("CPU", 0.0), found.get("GPU", 0.0))


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
