"""A connection to Ray: to an existing cluster, or to one that is started on this machine and ended afterwards."""

from __future__ import annotations

import contextlib
import logging
import os
import queue
import socket
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any, NamedTuple

from maggnn.errors import InputError, first_line

LOCAL = "local"
"""The address for a new Ray instance on this machine."""

STORE_BYTES = 2**30
"""The object store of a Ray instance started here. Tasks wait for room in it, so it bounds the memory of a run."""

REACHED_S = 5.0
"""The seconds to wait for a host to respond; Ray itself would try for minutes."""

LOST_S = 60.0
"""The seconds that actors wait for a node if the cluster has become too small, and that a run without actors waits for
new ones; after that the command ends."""

LOOK_EVERY_S = 2.0
"""The seconds between checks of the size of the cluster while no row arrives."""

THREADS = {"OMP_WAIT_POLICY": "PASSIVE", "ONEDNN_PRIMITIVE_CACHE_CAPACITY": "16", "LRU_CACHE_CAPACITY": "16"}
"""Environment variables for the processes of a cluster, as the command line sets them for its own (`terminal`)."""

QUIET = {"RAY_USAGE_STATS_ENABLED": "0", "RAY_ENABLE_AUTO_CONNECT": "0"}
"""No usage statistics are sent, and a thread that is left behind (`while_it_fits`) does not reconnect by itself."""


class Resources(NamedTuple):
    """The resources of a cluster, or those that actors claim."""

    cpus: float
    gpus: float


@contextlib.contextmanager
def connected(address: str) -> Iterator[Resources]:
    """Connect to Ray at `address`; an instance that is started for this block ends with it.

    Args:
        address: "local" starts Ray on this machine, "auto" finds the cluster that this machine belongs to, HOST:PORT
            is a head node, and ray://HOST:PORT a Ray client server. A process that is already connected stays
            connected.
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
        raise InputError(f"--ray {address}: {first_line(error)}") from error
    try:
        _silence()
        yield _resources()
    finally:
        ray.shutdown()


def while_it_fits(
    rows: Iterable[Any],
    claimed: Resources,
    cluster: Callable[[], tuple[Resources, Resources]] | None = None,
    patience_s: float = LOST_S,
    look_every_s: float = LOOK_EVERY_S,
) -> Iterator[Any]:
    """Yield the rows that actors make, as long as the cluster has room for these actors and some of them live.

    Ray itself waits forever for room for the actors of a lost node, and for rows of actors that were killed for good
    after the others had finished; here both waits have a time limit. The second is only noticed in a cluster in which
    nothing else runs.

    Args:
        rows: the rows, which are read in a thread; it is left behind if they stop arriving.
        claimed: the resources that all actors claim together.
        cluster: returns the resources of live nodes, and those that nothing claims; None asks Ray.
        patience_s: the seconds for which the cluster may be too small, or idle.
        look_every_s: the seconds between checks while no row arrives.
    """
    found: queue.Queue[tuple[str, Any]] = queue.Queue(maxsize=1)
    threading.Thread(target=_put_each, args=(rows, found), daemon=True).start()
    fits_until = busy_until = time.monotonic()
    while True:
        try:
            what, value = found.get(timeout=look_every_s)
        except queue.Empty:
            now, (alive, free) = time.monotonic(), (cluster or _resources_and_free)()
            fits_until = now if alive.cpus >= claimed.cpus and alive.gpus >= claimed.gpus else fits_until
            busy_until = now if free != alive else busy_until
            if now - fits_until > patience_s:
                raise InputError(
                    f"the cluster has lost nodes: {alive.cpus:g} CPUs and {alive.gpus:g} GPUs are left, but "
                    f"{claimed.cpus:g} and {claimed.gpus:g} are needed; finished shards are kept, and the same "
                    "command resumes on the available nodes"
                ) from None
            if now - busy_until > patience_s:
                raise InputError(
                    "the actors of this command have ended, and Ray does not start new ones; finished shards are kept, "
                    "and the same command resumes"
                ) from None
            continue
        busy_until = time.monotonic()
        if what == "row":
            yield value
        elif what == "error":
            raise _as_input_error(value)
        else:
            return


def _put_each(rows: Iterable[Any], found: queue.Queue[tuple[str, Any]]) -> None:
    try:
        for row in rows:
            found.put(("row", row))
        found.put(("end", None))
    except Exception as error:
        found.put(("error", error))


def _as_input_error(error: Exception) -> Exception:
    """Convert errors about lost objects or killed actors of Ray to one line; other errors are unchanged."""
    from ray.exceptions import RayError, RayTaskError

    if not isinstance(error, RayError) or isinstance(error, RayTaskError):
        return error
    return InputError(
        f"Ray lost data that it cannot recompute ({first_line(error)}); finished shards are kept, and the same "
        "command resumes"
    )


def _check_reached(address: str) -> None:
    """Raise an `InputError` within seconds if nothing listens at an address."""
    host, _, port = address.removeprefix("ray://").rpartition(":")
    if not host or not port.isdecimal() or not 0 < int(port) < 65536:
        raise InputError(f"--ray {address}: not an address: give HOST:PORT, ray://HOST:PORT, auto, or no value")
    try:
        socket.create_connection((host.strip("[]"), int(port)), timeout=REACHED_S).close()
    except OSError as error:
        raise InputError(f"--ray {address}: Ray does not respond there ({error.strerror or error})") from error


def _resources() -> Resources:
    import ray

    return _counted(ray.cluster_resources())


def _resources_and_free() -> tuple[Resources, Resources]:
    import ray

    return _resources(), _counted(ray.available_resources())


def _counted(found: Mapping[str, float]) -> Resources:
    return Resources(found.get("CPU", 0.0), found.get("GPU", 0.0))


def _silence() -> None:
    """Silence Ray, because maggnn prints its own progress and errors."""
    import ray.data

    logging.getLogger("ray").setLevel(logging.CRITICAL)
    logging.getLogger("ray.data").setLevel(logging.CRITICAL)
    context = ray.data.DataContext.get_current()
    context.enable_progress_bars = False
    context.print_on_execution_start = False
