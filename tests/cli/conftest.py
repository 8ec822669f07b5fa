"""A real Ray for the commands that run on one."""

import os
from collections.abc import Iterator

import pytest


@pytest.fixture(scope="module")
def cluster() -> Iterator[str]:
    """A Ray of two CPUs in this process, with little memory and no dashboard; its address."""
    ray = pytest.importorskip("ray", reason="needs Ray: pip install 'maggnn[ray]'")
    os.environ |= {"RAY_USAGE_STATS_ENABLED": "0", "RAY_ENABLE_AUTO_CONNECT": "0"}
    ray.init(
        address="local", num_cpus=2, include_dashboard=False, object_store_memory=150_000_000, log_to_driver=False,
        logging_level="ERROR",
    )  # fmt: skip
    yield ray.get_runtime_context().gcs_address
    ray.shutdown()
