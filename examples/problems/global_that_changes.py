"""The training loop tells the loss its phase by a global."""

import torch

import pellucid

SETTINGS = {"phase": "warmup"}


@pellucid.compile(backend="eager")
def loss(prediction, target):
    error = (prediction - target).abs()
    if SETTINGS["phase"] == "warmup":
        return error.mean()
    if SETTINGS["phase"] == "main":
        return error.square().mean()
    return error.max()


for phase in ("warmup", "main", "final"):
    SETTINGS["phase"] = phase
    print(loss(torch.tensor([1.0, 3.0]), torch.zeros(2)).item())
