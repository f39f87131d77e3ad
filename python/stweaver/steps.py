"""Where one training step ends and the next begins, seen through PyTorch's optimizers."""

import weakref
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from stweaver import pytorch

# Steps of one other optimizer while the leader makes none, after which that one leads. A GAN's critic makes
# five or so for one of the generator; a job that has changed its optimizer makes any number. Between two
# steps of one that is slower than the leader lie fewer of the leader's.
PATIENCE = 16


@dataclass
class _Other:
    """An optimizer that does not lead."""

    since: int  # steps of the leader since its own last
    steps: int = 0  # its own since the leader's last
    pace: int = 0  # steps of the leader between its last two
    in_question: bool = False  # whether it may be slower: its second step tells
    is_slower: bool = False  # whether there were as many of the leader's steps once more


class StepWatch:
    """Calls `boundary` after each training step.

    A job may have several optimizers in each step: the boundary is where the first one seen, the leader, has
    stepped. If it stays away or is gone, another leads; and so does one that steps once for each so many of
    the leader's, as a GAN's generator: what repeats is an iteration. While one that has come may be such,
    there is no boundary. If it is, `restart` is called, once: what was seen so far were no steps.

    Once mark() was called, only mark() counts.
    """

    def __init__(
        self, boundary: Callable[[], None], restart: Callable[[], None], is_marked: bool = False
    ) -> None:
        """See nothing yet: attach() does that. `is_marked`: another watch was told of the end of a step."""
        self._boundary = boundary
        self._restart = restart
        self._leader: weakref.ref[Any] | None = None
        self._steps = 0  # of those that led
        self._in_a_row = 0  # of them, the leader's since another's last
        self._has_restarted = False
        self._others: weakref.WeakKeyDictionary[Any, _Other] = weakref.WeakKeyDictionary()
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
        if self.is_marked:
            return
        leader = self._leader() if self._leader is not None else None
        restarts = False
        if leader is None:
            self._lead(optimizer)
        elif optimizer is not leader:
            other = self._note(optimizer)
            if not other.is_slower and other.steps < PATIENCE:
                return
            self._others.clear()
            self._lead(optimizer)
            restarts = other.is_slower and not self._has_restarted
        self._steps += 1
        self._in_a_row += 1
        for other in self._others.values():
            other.steps = 0
            other.since += 1
            other.in_question = other.in_question and other.since < PATIENCE
        if not any(other.in_question for other in self._others.values()):
            self._boundary()
        if restarts:  # behind what was served by then
            self._has_restarted = True
            self._restart()

    def _lead(self, optimizer: object) -> None:
        self._leader = weakref.ref(optimizer)
        self._others.pop(optimizer, None)
        self._in_a_row = 0

    def _note(self, optimizer: object) -> _Other:
        """Take note that one has stepped that does not lead."""
        # Later ones may come and go, and each would hold boundaries up.
        is_new = optimizer not in self._others and self._steps < PATIENCE
        other = self._others.setdefault(optimizer, _Other(self._in_a_row))
        self._in_a_row = 0
        pace = other.since if 1 < other.since < PATIENCE else 0
        other.is_slower = 0 < pace == other.pace
        other.in_question = is_new and pace > 0
        other.since, other.pace = 0, pace
        other.steps += 1
        return other
