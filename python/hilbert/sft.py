"""hilbert.SFTTrainer: the SFTTrainer of TRL, whose model is offloaded."""

import trl

from .trainer import TrainerMixin


class SFTTrainer(TrainerMixin, trl.SFTTrainer):
    """trl.SFTTrainer under budgets: see `TrainerMixin`."""
