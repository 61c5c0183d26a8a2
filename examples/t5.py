"""A T5 that learns to copy, made without ever being whole in memory, saved and loaded again.

python3 t5.py
"""

import tempfile

import hilbert
import torch
from transformers import T5Config, T5ForConditionalGeneration

config = T5Config(vocab_size=64, d_model=64, d_kv=16, d_ff=128, num_layers=2, num_heads=4,
                  decoder_start_token_id=0, pad_token_id=0, dropout_rate=0.0)
with hilbert.init(host_memory="200K"):  # more of it waits in a file
    model = T5ForConditionalGeneration(config)

decay = [name for name, p in model.named_parameters() if p.ndim > 1]
rest = [name for name, p in model.named_parameters() if p.ndim < 2]
model = hilbert.offload(model, device_memory="1M", host_memory="1M", disk=".",
                        lr=2e-3, params=[{"params": decay, "weight_decay": 0.1},
                                         {"params": rest, "weight_decay": 0.0}])
schedule = torch.optim.lr_scheduler.LinearLR(model.optimizer, 0.1, 1.0, total_iters=10)

device = model.hilbert.store.device
for step in range(31):
    text = torch.randint(2, 64, (16, 6), device=device)
    loss = model(input_ids=text, labels=text).loss
    model.backward(loss)
    model.step()
    schedule.step()
    if step % 10 == 0:
        print(f"step {step:3}  loss {loss.item():.4f}")

with tempfile.TemporaryDirectory() as folder:
    hilbert.save_pretrained(model, folder)
    again = hilbert.from_pretrained(T5ForConditionalGeneration, folder, device_memory="1M",
                                    host_memory="1M", disk=".")
    a = model.generate(text[:1], max_new_tokens=6)
    b = again.generate(text[:1], max_new_tokens=6)
    assert torch.equal(a, b), "the model that was loaded says something else"
print("in ", text[0].tolist())
print("out", a[0].tolist())
assert loss.item() < 4.5, "it did not learn"
