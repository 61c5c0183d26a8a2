"""Several processes train one model: each has a part of all states, and batches of its own.

torchrun --nproc-per-node 2 ranks.py          (one process: python3 ranks.py)
"""

import os

import hilbert
import torch
from torch import nn

rank, ranks = int(os.environ.get("RANK", 0)), int(os.environ.get("WORLD_SIZE", 1))
torch.manual_seed(0)
model = nn.Sequential(*(layer for _ in range(8) for layer in (nn.Linear(128, 128), nn.Tanh())))
model = hilbert.offload(model, lr=1e-3, clip=1.0, device_memory="1M", host_memory="4M", disk=".:64M")
device = model.hilbert.store.device
for step in range(100):
    x = torch.randn(64, 128, generator=torch.Generator().manual_seed(step))
    own = x[rank * 64 // ranks:(rank + 1) * 64 // ranks].to(device)  # this rank's part of the batch
    loss = nn.functional.mse_loss(model(own), 0.5 * own.roll(1, 1))
    model.backward(loss)
    norm = model.step()  # of the gradients' mean over all ranks
    if rank == 0 and step % 20 == 19:
        placed = {tier: f"{size >> 10} KiB" for tier, size in model.hilbert.store.placed().items()}
        print(f"step {step + 1:3}  loss {loss.item():.4f}  norm {norm:.4f}  on rank 0: {placed}")
assert loss.item() < 0.2, "it did not learn"
if rank == 0:  # one rank may save alone
    torch.save(model.state_dict(), "ranks.pt")
