"""hilbert.SFTTrainer: the SFTTrainer of TRL, whose model is offloaded."""

from trl import SFTTrainer as TheirTrainer

from .trainer import TrainerMixin


class SFTTrainer(TrainerMixin, TheirTrainer):
    """trl.SFTTrainer under budgets: see `TrainerMixin`."""
