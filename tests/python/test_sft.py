"""hilbert.SFTTrainer does what that of TRL does, under budgets."""

import pytest
import torch

trl = pytest.importorskip("trl")
datasets = pytest.importorskip("datasets")
import hilbert
import transformers
from compare import same
from models import llama
from test_trainer import budgets, history, lora


def words(seed=3):
    generator = torch.Generator().manual_seed(seed)
    rows = torch.randint(0, 90, (16, 12), generator=generator).tolist()
    return datasets.Dataset.from_list([{"input_ids": row} for row in rows])


def tokenizer():
    """Numbers as words: nothing is downloaded."""
    from tokenizers import Tokenizer, models
    plain = Tokenizer(models.WordLevel({f"w{i}": i for i in range(96)}, unk_token="w95"))
    return transformers.PreTrainedTokenizerFast(tokenizer_object=plain, pad_token="w93", eos_token="w94")


@pytest.mark.parametrize("wrap", [lambda model: model, lora], ids=["full", "adapters"])
def test_same_losses(tmp_path, wrap):
    losses, norms = [], []
    for kind in (hilbert.SFTTrainer, trl.SFTTrainer):
        torch.manual_seed(2)
        model = wrap(llama(2))
        args = trl.SFTConfig(output_dir=str(tmp_path), per_device_train_batch_size=4, max_steps=6,
                             learning_rate=2e-3, logging_steps=1, save_strategy="no", report_to=[],
                             disable_tqdm=True, use_cpu=True, bf16=False, gradient_checkpointing=False)
        more = {"hilbert": budgets(tmp_path, model, args)} if kind is hilbert.SFTTrainer else {}
        trainer = kind(model=model, args=args, train_dataset=words(), processing_class=tokenizer(),
                       **more)
        trainer.train()
        losses.append(history(trainer))
        norms.append(history(trainer, "grad_norm"))
    same(*losses)
    same(*norms, 1e-4)
