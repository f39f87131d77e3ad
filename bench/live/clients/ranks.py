"""How a training loop joins its process group."""

import os

from steps import cuda
from workloads import clients

ALONE = {
    "RANK": "0",
    "LOCAL_RANK": "0",
    "WORLD_SIZE": "1",
    "MASTER_ADDR": "localhost",
    "MASTER_PORT": "0",  # any that is free
}


def join() -> None:
    """Take the device of this rank and join the ranks that torchrun, or whoever set its variables, started.

    Where nobody did, be alone.
    """
    for name, value in ALONE.items():
        os.environ.setdefault(name, value)
    cuda.set_device(int(os.environ["LOCAL_RANK"]))
    clients.join()
