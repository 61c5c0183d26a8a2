"""A model with a loop that the data control, tied weights, accumulation, evaluation and checkpoints.

python3 custom_loop.py

It adds numbers: a cell is applied once for each of them.
"""

import tempfile

import hilbert
import torch
from torch import nn
from torch.nn import functional as F

torch.manual_seed(0)


class Adder(nn.Module):
    def __init__(self, size=48, width=96):
        super().__init__()
        self.number = nn.Embedding(size, width)
        self.cell = nn.GRUCell(width, width)
        self.norm = nn.LayerNorm(width)
        self.deep = nn.ModuleList(nn.Linear(width, width) for _ in range(4))

    def forward(self, numbers):  # (batch, count)
        state = torch.zeros(numbers.shape[0], self.cell.hidden_size, device=numbers.device)
        for column in numbers.T:  # as often as there are columns
            state = self.cell(self.number(column), state)
        for layer in self.deep:
            state = state + F.gelu(layer(state))
        return F.linear(self.norm(state), self.number.weight)  # tied, outside of its module


def batch():
    count = int(torch.randint(2, 5, ()))
    numbers = torch.randint(0, 12, (32, count), device=device)
    return numbers, numbers.sum(1)


model = hilbert.offload(Adder(), lr=2e-3, clip=1.0, device_memory="1M", host_memory="1M", disk=".")
device = model.hilbert.store.device
folder = tempfile.TemporaryDirectory()
for step in range(40):
    for _ in range(2):  # two backward calls, one step
        numbers, total = batch()
        loss = F.cross_entropy(model(numbers), total)
        model.backward(loss / 2)
    model.step()
    if step % 20 == 19:
        with torch.no_grad():
            numbers, total = batch()
            right = (model(numbers).argmax(1) == total).float().mean().item()
        print(f"step {step + 1:3}  loss {loss.item():.3f}  right {right:.2f}")
        hilbert.save(model, folder.name, {"step": step + 1}, keep=2, wait=False)

print("continues from", hilbert.load(model, folder.name))
assert loss.item() < 3.8, "it did not learn"
