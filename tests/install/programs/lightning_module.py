"""Lightning: a Trainer with a compiled LightningModule, or Fabric with a compiled module (`--fabric`)."""

import logging
import sys
import tempfile
import warnings

import torch
from reported import norms, report

warnings.filterwarnings("ignore")
logging.getLogger("lightning.pytorch").setLevel(logging.ERROR)
import lightning  # noqa: E402

torch.manual_seed(0)
compiles = "--compile" in sys.argv
data = torch.utils.data.DataLoader(torch.utils.data.TensorDataset(torch.randn(12, 8), torch.randn(12, 1)), batch_size=4)


class Net(lightning.LightningModule):
    def __init__(self):
        super().__init__()
        self.inner = torch.nn.Sequential(torch.nn.Linear(8, 8), torch.nn.GELU(), torch.nn.Linear(8, 1))
        self.losses = []

    def forward(self, x):
        return self.inner(x)

    def training_step(self, batch, index):
        x, y = batch
        loss = torch.nn.functional.mse_loss(self(x), y)
        self.losses.append(loss.item())
        return loss

    def configure_optimizers(self):
        return torch.optim.SGD(self.parameters(), lr=0.1)


net = Net()
if "--fabric" in sys.argv:
    fabric = lightning.Fabric(accelerator="cpu", devices=1)
    model = torch.compile(net.inner, backend="eager") if compiles else net.inner
    model, optimizer = fabric.setup(model, torch.optim.SGD(model.parameters(), lr=0.1))
    for x, y in fabric.setup_dataloaders(data):
        loss = torch.nn.functional.mse_loss(model(x), y)
        fabric.backward(loss)
        optimizer.step()
        optimizer.zero_grad()
        net.losses.append(loss.item())
else:
    with tempfile.TemporaryDirectory() as folder:
        trainer = lightning.Trainer(
            max_epochs=2, accelerator="cpu", logger=False, enable_checkpointing=False, enable_progress_bar=False,
            enable_model_summary=False, default_root_dir=folder,
        )  # fmt: skip
        trainer.fit(torch.compile(net, backend="eager") if compiles else net, data)
report(*net.losses, norms(net))
