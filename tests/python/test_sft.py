"""hilbert.SFTTrainer does what that of TRL does, under budgets; other trainers of TRL by the mixin."""

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


def test_preferences(tmp_path):
    """DPOTrainer, whose reference model stays as it is."""
    class Mine(hilbert.TrainerMixin, trl.DPOTrainer):
        pass

    pairs = datasets.Dataset.from_list([
        {"prompt": f"w{i} w{i + 1}", "chosen": f" w{i + 2} w{i + 3}", "rejected": f" w{i + 5} w{i}"}
        for i in range(16)])
    runs = []
    for kind in (Mine, trl.DPOTrainer):
        models = []
        for seed in (2, 2):
            torch.manual_seed(seed)
            models.append(llama(2))
        args = trl.DPOConfig(output_dir=str(tmp_path), per_device_train_batch_size=4, max_steps=5,
                             learning_rate=2e-3, logging_steps=1, save_strategy="no", report_to=[],
                             disable_tqdm=True, use_cpu=True, bf16=False, gradient_checkpointing=False)
        more = {"hilbert": budgets(tmp_path, models[0], args)} if kind is Mine else {}
        trainer = kind(model=models[0], ref_model=models[1], args=args, train_dataset=pairs,
                       processing_class=tokenizer(), **more)
        trainer.train()
        runs.append(history(trainer))
    same(*runs)
