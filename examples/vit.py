"""A vision transformer whose weights and optimizer states do not fit into the memory it may use.

python3 vit.py

It learns to tell which quarter of an image is bright. Without a GPU, device memory is RAM.
"""

import hilbert
import torch
from transformers import ViTConfig, ViTForImageClassification

model = ViTForImageClassification(ViTConfig(
    hidden_size=96, num_hidden_layers=4, num_attention_heads=4, intermediate_size=192,
    image_size=32, patch_size=8, num_labels=4))
states = 16 * sum(p.numel() for p in model.parameters())  # bytes: weight, gradient, two moments

model = hilbert.offload(model, lr=1e-3, weight_decay=0.05, clip=1.0,
                        device_memory=states // 4, host_memory=states // 8, disk=".")
print("bytes of states in each tier:", model.hilbert.store.placed())

device = model.hilbert.store.device
for step in range(31):
    labels = torch.randint(0, 4, (16,), device=device)
    images = 0.3 * torch.randn(16, 3, 32, 32, device=device)
    for image, label in zip(images, labels.tolist()):
        row, column = 16 * (label // 2), 16 * (label % 2)
        image[:, row:row + 16, column:column + 16] += 1
    loss = model(pixel_values=images, labels=labels).loss
    model.backward(loss)
    norm = model.step()
    if step % 10 == 0:
        print(f"step {step:3}  loss {loss.item():.4f}  norm {norm:.2f}")

assert loss.item() < 1.6, "it did not learn"
