"""A LightningModule whose states are in RAM and on disk.

python3 lightning_strategy.py
"""

import lightning as L
import torch
from torch import nn

from hilbert.lightning import HilbertStrategy


class Mixer(L.LightningModule):
    """Learns to shift its input by one."""

    def __init__(self, width=128, depth=6):
        super().__init__()
        self.layers = nn.Sequential(*(layer for _ in range(depth) for layer in (nn.Linear(width, width), nn.Tanh())),
                                    nn.Linear(width, width))

    def training_step(self, batch, index):
        x, y = batch
        loss = nn.functional.mse_loss(self.layers(x), y)
        self.log("loss", loss, prog_bar=True)
        return loss

    def configure_optimizers(self):
        optimizer = torch.optim.AdamW(self.parameters(), lr=2e-3, weight_decay=0.01)
        return [optimizer], [torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, 8)]


L.seed_everything(0)
data = torch.utils.data.DataLoader([(x, 0.5 * x.roll(1)) for x in torch.randn(512, 128)], batch_size=16)
trainer = L.Trainer(max_epochs=8, gradient_clip_val=1.0, logger=False, enable_checkpointing=False,
                    strategy=HilbertStrategy(device_memory="1M", host_memory="1M", disk=["."]))  # the changed line
module = Mixer()
trainer.fit(module, data)
loss = trainer.callback_metrics["loss"].item()
print(f"loss {loss:.4f}, states {module.hilbert.store.placed()}")
assert loss < 0.2, "it did not learn"
