"""accelerate: prepare() compiles the model, and unwraps it again."""

import sys

import torch
from accelerate import Accelerator
from accelerate.utils import TorchDynamoPlugin, extract_model_from_parallel, is_compiled_module
from reported import norms, report

torch.manual_seed(0)
compiles = "--compile" in sys.argv
plugin = TorchDynamoPlugin(backend="eager", use_regional_compilation="--regions" in sys.argv) if compiles else None
accelerator = Accelerator(cpu=True, dynamo_plugin=plugin)
layers = torch.nn.ModuleList([torch.nn.Sequential(torch.nn.Linear(8, 8), torch.nn.Tanh()) for _ in range(3)])


class Net(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.layers = layers
        self.head = torch.nn.Linear(8, 1)

    def forward(self, x):
        for layer in self.layers:
            x = layer(x)
        return self.head(x)


model = Net()
optimizer = torch.optim.AdamW(model.parameters(), lr=0.01)
data = torch.utils.data.DataLoader(torch.utils.data.TensorDataset(torch.randn(12, 8), torch.randn(12, 1)), batch_size=4)
prepared, optimizer, data = accelerator.prepare(model, optimizer, data)
assert is_compiled_module(prepared) is (compiles and "--regions" not in sys.argv)
losses = []
for _ in range(2):
    for x, y in data:
        loss = torch.nn.functional.mse_loss(prepared(x), y)
        accelerator.backward(loss)
        accelerator.clip_grad_norm_(prepared.parameters(), 1.0)
        optimizer.step()
        optimizer.zero_grad()
        losses.append(loss.item())
assert extract_model_from_parallel(prepared, keep_torch_compile=False) is not prepared or not compiles
assert isinstance(accelerator.unwrap_model(prepared, keep_torch_compile=False), Net)
report(*losses, norms(model))
