"""Teaches a model to answer with the SFTTrainer of TRL, full weights or adapters of PEFT.

python3 sft.py --model FOLDER --data stories.jsonl --chat-template chat_template.jinja [--lora 16] [--disk /nvme]
"""

import argparse

import torch
from datasets import load_dataset
from peft import LoraConfig
from trl import SFTConfig

from hilbert import SFTTrainer  # the changed line: from trl import SFTTrainer

parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
parser.add_argument("--model", required=True, help="folder with weights and tokenizer")
parser.add_argument("--data", required=True, help='lines of JSON with "text" or "messages"')
parser.add_argument("--chat-template", help="file, for a tokenizer without one")
parser.add_argument("--output", default="out")
parser.add_argument("--steps", type=int, default=100)
parser.add_argument("--lr", type=float, default=1e-4)
parser.add_argument("--lora", type=int, default=0, help="rank of adapters; 0: all weights are trained")
parser.add_argument("--bf16", action="store_true")
parser.add_argument("--resume", action="store_true")
parser.add_argument("--device-memory")
parser.add_argument("--host-memory")
parser.add_argument("--disk", action="append", default=[])
args = parser.parse_args()

trainer = SFTTrainer(
    model=args.model, train_dataset=load_dataset("json", data_files=args.data, split="train"),
    args=SFTConfig(output_dir=args.output, max_steps=args.steps, learning_rate=args.lr, bf16=args.bf16,
                   use_cpu=not torch.cuda.is_available(),
                   per_device_train_batch_size=4, max_length=512, chat_template_path=args.chat_template, logging_steps=10, save_steps=50,
                   report_to=[]),
    peft_config=LoraConfig(r=args.lora, lora_alpha=2 * args.lora) if args.lora else None,
    hilbert={"device_memory": args.device_memory, "host_memory": args.host_memory, "disk": args.disk})
result = trainer.train(resume_from_checkpoint=args.resume or None)
trainer.save_model()
print(f"loss {result.training_loss:.3f}, states {trainer.model.hilbert.store.placed()}")
