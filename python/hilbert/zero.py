"""Names of deepspeed.zero, for scripts that change their import."""

from __future__ import annotations

import contextlib
from typing import Any, ContextManager, Iterable, Optional, Union

from torch import nn

from ._init import init, present
from ._offload import find_state, gathered


def GatheredParameters(params: Union[nn.Parameter, Iterable[nn.Parameter]],
                       modifier_rank: Optional[int] = None, fwd_module: Optional[nn.Module] = None,
                       enabled: bool = True) -> ContextManager[None]:
    """hilbert.gathered, and before the model is offloaded the same for parameters that `Init` made. What a
    rank changes inside counts for all ranks, whether `modifier_rank` names it or not; if several change
    a parameter, the lowest one's values count."""
    if not enabled:
        return contextlib.nullcontext()
    listed = [params] if isinstance(params, nn.Parameter) else list(params)
    return gathered(listed) if find_state(listed) is not None else present(listed)


def Init(*args: Any, **kwargs: Any) -> ContextManager[None]:
    """hilbert.init, with its defaults: parameters of new modules leave memory when there are many. The
    arguments of DeepSpeed's do not matter here."""
    return init()
