"""Trains a causal language model on a text file with the Trainer of transformers, under budgets.

python3 trainer.py                                        a small new model, on this file, without a tokenizer's files
python3 trainer.py --model FOLDER --text FILE --disk /nvme:500G --device-memory 20G
python3 trainer.py ... --resume                           continues after a break
"""

import argparse

import torch
from transformers import AutoConfig, AutoModelForCausalLM, AutoTokenizer, LlamaConfig, TrainingArguments

from hilbert import Trainer  # the changed line: from transformers import Trainer


class Bytes:
    """A tokenizer for those who have none."""

    def __call__(self, text):
        return {"input_ids": list(text.encode())}


def blocks(ids, length):
    """Pieces of equal length; what is left over is dropped."""
    return [{"input_ids": torch.tensor(ids[at:at + length]), "labels": torch.tensor(ids[at:at + length])}
            for at in range(0, len(ids) - length + 1, length)]


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--model", help="folder with weights and tokenizer")
    parser.add_argument("--config", help="folder or file with a config.json: a new model")
    parser.add_argument("--text", default=__file__, help="file to train on")
    parser.add_argument("--output", default="out")
    parser.add_argument("--block", type=int, default=64)
    parser.add_argument("--steps", type=int, default=60)
    parser.add_argument("--batch", type=int, default=8)
    parser.add_argument("--accumulate", type=int, default=1)
    parser.add_argument("--lr", type=float, default=2e-3)
    parser.add_argument("--bf16", action="store_true")
    parser.add_argument("--save", type=int, default=20, help="steps between checkpoints")
    parser.add_argument("--log", type=int, default=10, help="steps between lines with the loss")
    parser.add_argument("--resume", action="store_true")
    parser.add_argument("--device-memory")
    parser.add_argument("--host-memory")
    parser.add_argument("--disk", action="append", default=[])
    args = parser.parse_args()

    torch.manual_seed(0)
    tokenizer = AutoTokenizer.from_pretrained(args.model) if args.model else Bytes()
    if args.model:
        model = AutoModelForCausalLM.from_pretrained(args.model)
    elif args.config:
        model = AutoModelForCausalLM.from_config(AutoConfig.from_pretrained(args.config))
    else:
        model = AutoModelForCausalLM.from_config(LlamaConfig(
            vocab_size=256, hidden_size=128, intermediate_size=256, num_hidden_layers=3,
            num_attention_heads=4, max_position_embeddings=256))
    with open(args.text, encoding="utf-8") as file:
        data = blocks(tokenizer(file.read())["input_ids"], args.block)
    held = max(1, len(data) // 20)

    trainer = Trainer(
        model=model, train_dataset=data[held:], eval_dataset=data[:held],
        args=TrainingArguments(
            output_dir=args.output, max_steps=args.steps, per_device_train_batch_size=args.batch,
            gradient_accumulation_steps=args.accumulate, learning_rate=args.lr, weight_decay=0.1,
            warmup_steps=5, lr_scheduler_type="cosine", bf16=args.bf16, use_cpu=not torch.cuda.is_available(), logging_steps=args.log,
            eval_strategy="steps", eval_steps=args.save, save_steps=args.save, save_total_limit=2,
            report_to=[], seed=0),
        hilbert={"device_memory": args.device_memory, "host_memory": args.host_memory, "disk": args.disk})
    result = trainer.train(resume_from_checkpoint=args.resume or None)
    trainer.save_model()
    print(f"loss {result.training_loss:.3f}, states {trainer.model.hilbert.store.placed()}")


if __name__ == "__main__":
    main()
