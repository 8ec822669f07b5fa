"""Training on several devices, with one process for each device, which gets its share of each batch.

Lightning Fabric starts the processes and connects them (NCCL on GPUs, gloo on CPUs); with `--ray` Ray Train does
(`maggnn.apps.scale.training`). What they exchange goes through the process group of torch that both set up:

    gradients     averaged after every backward pass, together with the loss, in one message
    norms         statistics are over the rows of all processes (`model/kernels/shared.py`)
    counts        means over nodes or moves are over those of all processes
    validation    the first process evaluates and sends its scalars to the others
    checkpoints   the first process writes the states of all processes

Settings of batches, walkers and replay are per process: N devices with batch_size B learn as one with batch_size N B.
Each process has its own graphs, generators, walkers and replay buffer. Torch's DistributedDataParallel is not used: it
needs plain tensors as the inputs of a forward pass, and walkers, targets and recordings call the networks in other ways
than through one forward pass.
"""

from __future__ import annotations

import logging
import os
import pickle
import signal
import tempfile
import warnings
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Concatenate, Protocol, TypeVar, cast

import torch
from torch import Tensor, nn

from maggnn.data.worker_processes import leave_with_parent
from maggnn.errors import InputError, require
from maggnn.model.normalise import synchronise
from maggnn.model.runtime import pick_device

T = TypeVar("T")

SEED_STEP = 1_000_003
"""The difference between the seeds of neighbouring processes."""


@dataclass(frozen=True)
class Devices:
    """The processes of a run, from the view of one of them.

    Attributes:
        rank: the rank of this process, from 0.
        size: the number of processes.
        device: the device of this process; None if there is one process, which takes what `runtime.device` names.
    """

    rank: int = 0
    size: int = 1
    device: torch.device | None = None

    @property
    def first(self) -> bool:
        """Whether this process writes files and prints."""
        return self.rank == 0

    def prepare(self, model: nn.Module) -> None:
        """Copy the first process's weights to the model, and make its norms use the rows of all processes."""
        if self.size == 1:
            return
        for values in model.state_dict().values():
            torch.distributed.broadcast(values, src=0)
        synchronise(model)

    def average(self, module: nn.Module, loss: Tensor) -> Tensor:
        """Average the gradients of a module's parameters over all processes. Returns the mean loss."""
        if self.size == 1:
            return loss.detach()
        gradients = [values.grad for values in module.parameters() if values.grad is not None]
        flat = torch.cat([*(gradient.reshape(-1) for gradient in gradients), loss.detach().reshape(1)])
        flat = self._mean(flat)
        for gradient, mean in zip(gradients, flat[:-1].split([one.numel() for one in gradients]), strict=True):
            gradient.copy_(mean.reshape(gradient.shape))
        return flat[-1].clone()

    def mean(self, value: Tensor) -> Tensor:
        """Return the mean of a number over all processes, without gradients.

        If each process divides a sum over its rows by the mean number of rows of all processes, the mean over processes
        is the mean over all rows.
        """
        if self.size == 1:
            return value
        return self._mean(value.detach().clone().to(torch.get_default_dtype()))

    def _mean(self, values: Tensor) -> Tensor:
        """Average values over all processes, in place; a sum is divided, since gloo has no mean."""
        torch.distributed.all_reduce(values)
        return values.div_(self.size)

    def from_first(self, make: Callable[[], T]) -> T:
        """Call `make` in the first process and return its result in all processes."""
        if self.size == 1:
            return make()
        made: list[Any] = [make() if self.first else None]
        torch.distributed.broadcast_object_list(made, src=0)
        return made[0]

    def gathered(self, tensors: Mapping[str, Tensor]) -> list[dict[str, Tensor]]:
        """Return the tensors of each process on the CPU of the first; an empty list in other processes."""
        own = {name: values.detach().cpu() for name, values in tensors.items()}
        if self.size == 1:
            return [own]
        found: list[Any] | None = [None] * self.size if self.first else None
        torch.distributed.gather_object(own, found, dst=0)
        return found or []

    def wait(self) -> None:
        """Wait until all processes have called this."""
        if self.size > 1:
            on_gpu = self.device is not None and self.device.type == "cuda"
            torch.distributed.barrier(device_ids=[torch.cuda.current_device()] if on_gpu else None)


ONE = Devices()
"""A run of a single process."""

Work = Callable[Concatenate[Devices, ...], T]
"""What each process does: a function of a module, since other processes import it. It returns plain values."""


class Launch(Protocol):
    """Calls `work(Devices, *arguments)` in every process of a run and returns the result of the first."""

    def __call__(self, work: Work[T], *arguments: Any) -> T: ...


def launched(work: Work[T], devices: int, nodes: int, device: str, *arguments: Any) -> T:
    """Call `work(Devices, *arguments)` in every process. Returns the result of the first.

    Args:
        work: a module-level function, since processes are spawned; it returns plain values, not tensors.
        devices: the number of processes on this node.
        nodes: the number of nodes. Each is started by the same command; torchrun's or SLURM's variables, or
            MASTER_ADDR, MASTER_PORT and NODE_RANK, identify the node.
        device: as `runtime.device`.
    """
    kind = check_devices(devices, nodes, device)
    from lightning_fabric import Fabric
    from torch.multiprocessing.spawn import ProcessExitedException, ProcessRaisedException

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # Fabric warns about its guesses about the machine
        fabric = Fabric(accelerator=kind, devices=devices, num_nodes=nodes, strategy="ddp_spawn")
    # Results are passed through a file: Fabric reads its own pipe only when all processes have ended, so a process
    # would wait forever if its result is larger than the pipe.
    with tempfile.TemporaryDirectory() as name:
        result_file = Path(name) / "result"
        try:
            _silence()
            # Pickled here, because Fabric searches its arguments for modules and fails on frozen dataclasses.
            call = pickle.dumps((work, arguments))
            fabric.launch(_in_process, _Quiet(), result_file, call)  # pyright: ignore[reportArgumentType]
        except (ProcessExitedException, ProcessRaisedException):
            message = result_file.with_suffix(".error")
            if not message.exists():
                raise
            raise InputError(message.read_text()) from None
        # There is no result on nodes other than the first.
        return pickle.loads(result_file.read_bytes()) if result_file.exists() else cast(T, None)


def launcher(devices: int, device: str) -> Launch | None:
    """Return a function that starts one process for each device of this machine; None for a single device.

    Args:
        device: as `runtime.device`.
    """
    check_devices(devices, 1, device)

    def launch(work: Work[T], *arguments: Any) -> T:
        return launched(work, devices, 1, device, *arguments)

    return None if devices == 1 else launch


def check_devices(devices: int, nodes: int, device: str) -> str:
    """Raise an `InputError` if there are fewer devices than requested. Returns their kind, "cuda" or "cpu"."""
    kind = pick_device(device).type
    if devices * nodes > 1:
        require("lightning_fabric")
    there = torch.cuda.device_count() if kind == "cuda" else (os.cpu_count() or 1)
    if devices > there:
        raise InputError(f"--devices {devices}: this machine has {there} {'GPUs' if kind == 'cuda' else 'CPU cores'}")
    if nodes > 1 and not any(name in os.environ for name in ("NODE_RANK", "GROUP_RANK", "SLURM_NODEID")):
        raise InputError(f"--nodes {nodes}: set MASTER_ADDR, MASTER_PORT and NODE_RANK on each node, or use SLURM")
    return kind


def _silence() -> None:
    """Silence the messages of Fabric and torch about each process that connects or ends."""
    import lightning_fabric  # noqa: F401 (its import sets the level)

    for name in ("lightning_fabric", "lightning.fabric", "torch.multiprocessing.spawn"):
        logging.getLogger(name).setLevel(logging.ERROR)


class _Quiet:
    """Silences Fabric when it is unpickled, which happens in a new process before Fabric prints its first line."""

    def __reduce__(self) -> tuple[Callable[[], None], tuple[()]]:
        return _silence, ()


def _in_process(fabric: Any, quiet: None, result_file: Path, call: bytes) -> None:
    """Run the call in a process. The first passes its result, or a user's error as one line, to the parent."""
    leave_with_parent()
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the parent process handles Ctrl-C
    torch.set_num_threads(max(1, torch.get_num_threads() // max(1, fabric.world_size)))
    work, arguments = pickle.loads(call)
    try:
        result = work(Devices(fabric.global_rank, fabric.world_size, fabric.device), *arguments)
        if fabric.global_rank == 0:
            result_file.write_bytes(pickle.dumps(result))
    except InputError as error:
        own = result_file.with_suffix(f".{fabric.global_rank}")
        own.write_text(str(error))
        own.replace(result_file.with_suffix(".error"))
        raise
    finally:  # threads of the process group that are still running at exit would abort the process
        if torch.distributed.is_initialized():
            torch.distributed.destroy_process_group()
