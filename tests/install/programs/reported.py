"""What each program prints at its end: its results, and what the compiler in charge counted."""

import json
import os
import sys

import torch
import torch.distributed as dist


def report(*results):
    import torch._dynamo

    flat = [
        value for result in results for value in (result.flatten().tolist() if torch.is_tensor(result) else [result])
    ]
    counters = torch._dynamo.utils.counters
    print(
        json.dumps(
            {
                "results": flat,
                "graphs": counters["stats"]["unique_graphs"],
                "breaks": sum(counters["graph_break"].values()),
                "frames": torch._dynamo.convert_frame.FRAME_COUNTER,
            }
        )
    )


def norms(module):
    """One number for each parameter."""
    return torch.stack([parameter.detach().double().norm() for parameter in module.parameters()])


def leave():
    """Ends a process of several, without the interpreter's own end.

    A thread of gloo drops Python objects of the last collective when it likes to. Where the interpreter ends at that
    moment, CPython 3.11 ends the thread in the middle of a destructor of torch, and C++ ends the process: eager
    programs fail so too, one time in ten.
    """
    dist.destroy_process_group()
    sys.stdout.flush()
    os._exit(0)
