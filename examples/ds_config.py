"""A script for DeepSpeed with another import: deepspeed.initialize has become hilbert.initialize.

python3 ds_config.py
"""

import hilbert
import torch
from torch import nn

config = {
    "train_micro_batch_size_per_gpu": 8,
    "gradient_accumulation_steps": 2,
    "gradient_clipping": 1.0,
    "optimizer": {"type": "AdamW", "params": {"lr": 1e-3, "weight_decay": 0.01}},
    "scheduler": {"type": "WarmupLR", "params": {"warmup_num_steps": 10, "warmup_max_lr": 1e-3}},
    "zero_optimization": {"stage": 3, "offload_optimizer": {"device": "nvme", "nvme_path": "."}},
}


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.layers = nn.Sequential(*(layer for _ in range(8)
                                      for layer in (nn.Linear(128, 128), nn.Tanh())))

    def forward(self, x, y):
        return nn.functional.mse_loss(self.layers(x), y)


torch.manual_seed(0)
data = [(x, 0.5 * x.roll(1)) for x in torch.randn(256, 128)]
engine, _, loader, _ = hilbert.initialize(model=Net(), config=config, training_data=data,
                                          device_memory="1M", host_memory="1M")
for epoch in range(8):
    for x, y in loader:
        loss = engine(x.to(engine.device), y.to(engine.device))
        engine.backward(loss)
        engine.step()
    print(f"epoch {epoch}  updates {engine.global_steps}  rate {engine.get_lr()[0]:.1e}  loss {loss.item():.4f}")
assert loss.item() < 0.2, "it did not learn"
