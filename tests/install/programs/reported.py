"""What each program prints at its end: its results, and what the compiler in charge counted."""

import json

import torch


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
