"""Where one training step ends and the next begins, seen through PyTorch's optimizers."""

import weakref
from collections.abc import Callable
from typing import Any

from stweaver import pytorch

# Steps of one other optimizer while the leader makes none, after which that one leads. A GAN's critic makes
# five or so for one of the generator; a job that has changed its optimizer makes any number.
PATIENCE = 16


class StepWatch:
    """Calls `boundary` after each training step.

    A job may have several optimizers in each step: the boundary is where the first one seen, the leader, has
    stepped. If it stays away or is gone, another leads; and so does one that steps once for each so many of
    the leader's, as a GAN's generator: what repeats is an iteration.

    Once mark() was called, only mark() counts.
    """

    def __init__(self, boundary: Callable[[], None], is_marked: bool = False) -> None:
        """See nothing yet: attach() does that. `is_marked`: another watch was told of the end of a step."""
        self._boundary = boundary
        self._leader: weakref.ref[Any] | None = None
        # Of each other optimizer: its steps since the leader's last, the leader's since its own last, and the
        # leader's between its last two.
        self._others: weakref.WeakKeyDictionary[Any, int] = weakref.WeakKeyDictionary()
        self._since: weakref.WeakKeyDictionary[Any, int] = weakref.WeakKeyDictionary()
        self._paces: weakref.WeakKeyDictionary[Any, int] = weakref.WeakKeyDictionary()
        self.is_marked = is_marked
        self._hook: Any = None

    def attach(self) -> None:
        """Watch every optimizer of the process, also those still to be made."""
        pytorch.load()
        from torch.optim import optimizer

        def after(stepped: object, *_: object) -> None:
            self.has_stepped(stepped)

        setattr(after, "_torchdynamo_disable", True)  # noqa: B010  # to torch.compile a plain call
        self._hook = optimizer.register_optimizer_step_post_hook(after)

    def detach(self) -> None:
        """See nothing any more."""
        if self._hook is not None:
            self._hook.remove()
            self._hook = None

    def mark(self) -> None:
        """Take the user's word that a step has ended; the first time an optimizer may have said so before."""
        was_seen = not self.is_marked and self._leader is not None
        self.is_marked = True
        if not was_seen:
            self._boundary()

    def has_stepped(self, optimizer: object) -> None:
        """Take note that an optimizer has stepped."""
        if not self.is_marked and self._leads(optimizer):
            self._others.clear()
            self._boundary()

    def _leads(self, optimizer: object) -> bool:
        leader = self._leader() if self._leader is not None else None
        if optimizer is leader:
            for other in self._since:
                self._since[other] += 1
            return True
        if leader is not None:
            self._others[optimizer] = self._others.get(optimizer, 0) + 1
            if not self._is_slower(optimizer) and self._others[optimizer] < PATIENCE:
                return False
        self._leader = weakref.ref(optimizer)
        self._since.clear()
        self._paces.clear()
        return True

    def _is_slower(self, optimizer: object) -> bool:
        """Say whether, once more, the leader has made so many steps for this one's one."""
        pace = self._since.get(optimizer, 0)
        is_slower = 1 < pace < PATIENCE and self._paces.get(optimizer) == pace
        self._since[optimizer] = 0
        self._paces[optimizer] = pace
        return is_slower
