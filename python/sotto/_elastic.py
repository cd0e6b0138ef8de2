"""Training by a group of ranks that changes: ranks are lost, and others join."""

from __future__ import annotations

import contextlib
import functools
import gc
import os
import signal
import threading
import time
import traceback
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import timedelta
from typing import TYPE_CHECKING, Any, NoReturn, TypeVar

import torch
import torch.distributed as dist

from sotto import _check, _state
from sotto._elastic_group import all_groups, close, send_from
from sotto._elastic_state import ElasticState
from sotto._errors import CommError, ConfigError
from sotto._member import Member
from sotto._report import write
from sotto._steps import GIVEN_UP

if TYPE_CHECKING:
    from typing import Concatenate, ParamSpec

    Parameters = ParamSpec("Parameters")
Result = TypeVar("Result")
VARIABLE = "SOTTO_COORDINATOR"
LONGEST = 140.0  # seconds: with the 30 that a silent rank gets, less than the coordinator's patience with the others


def elastic(
    coordinator: str | None = None, *, secret: str | os.PathLike[str] | None = None, timeout: float | timedelta = 120.0,
    wait: float | timedelta = 600.0,
) -> Callable[[Callable[Concatenate[ElasticState, Parameters], Result]],
              Callable[Concatenate[ElasticState, Parameters], Result | None]]:
    """Lets a training function continue when ranks are lost or join. It is called again for each group of ranks.

        @sotto.elastic("10.0.0.1:29400")          # where `sotto coordinator --ranks 2:4 --listen 10.0.0.1:29400` runs
        def train(state):
            ddp = DistributedDataParallel(state.model)
            sotto.compress(ddp, "ef | topk(0.01)")
            while state.step < 1000:
                ...                                # a step
                state.step += 1
                state.commit()

        train(sotto.ElasticState(model=net, optimizer=optimizer, step=0))

    Start each rank by itself, on any machine, at any time; no launcher is needed. Within the function
    torch.distributed is initialised with Gloo, and `dist.get_rank()` and `dist.get_world_size()` refer to the present
    group. All ranks begin a call with the state of the last commit that all of them have; new ranks get it from
    another one. The state of wrappers is kept without your help. Each rank keeps what it held back (sotto.compress,
    AllReduceDataParallel, LocalSGD, DiLoCo), so only what a lost rank held back is lost. Where models differ
    (GossipDataParallel, LocalSGD, DiLoCo), all ranks continue from the exact mean of the remaining ranks' models.

    coordinator: its HOST:PORT. None: the variable SOTTO_COORDINATOR has it.
    secret: the file of `sotto secret new` that the coordinator and all ranks have. Nobody else can then join, or read what sotto's
        wrappers send between hosts; without it anybody who reaches the coordinator can. Gloo's own messages are always plain.
    timeout: of exchanges, and until the ranks of a group have met; at most 140 s. A machine that vanishes without a word is
        noticed after this time; a process that ends, at once, or after 30 s if it is killed before the group is connected.
    wait: for a coordinator that is gone while it is needed; another one with its --state may take its place.

    Make wrappers within the function, and keep none of them elsewhere. Every rank returns when all have come to the end.
    They return the result of the last call; None if the run had come to its end before this rank was needed.

    Errors: whatever says that a peer was lost (CommError, and Gloo's errors) begins the next group. Every other exception
    of the function ends this rank, and the others continue without it; so does Ctrl-C. After SIGTERM the rank leaves at the
    second commit at the latest, with SystemExit(143), if nobody else handles that signal. CommError if the coordinator
    ends the job, or is gone for longer than `wait` while it is needed.
    """
    if callable(coordinator):
        raise ConfigError("write @sotto.elastic(\"HOST:PORT\"), or @sotto.elastic() with the variable SOTTO_COORDINATOR")
    place = coordinator if coordinator is not None else os.environ.get(VARIABLE, "")
    if not place:
        raise ConfigError(f"coordinator: missing; say HOST:PORT, where `sotto coordinator` runs, here or in the variable {VARIABLE}")
    place = _check.text("coordinator", place, "HOST:PORT")
    if secret is not None and not isinstance(secret, (str, os.PathLike)):
        raise ConfigError(f"secret={secret!r}: wants the path of a file, not {type(secret).__name__}")
    file = None if secret is None else os.fspath(secret)
    seconds, absence = _check.seconds(timeout), _check.seconds(wait, "wait")
    if seconds > LONGEST:
        raise ConfigError(f"timeout={timeout!r}: at most {LONGEST:g} s, since the coordinator gives up ranks that wait for a "
                          "lost one for longer than 180 s")

    def decorate(train: Callable[Concatenate[ElasticState, Parameters], Result]) -> Any:
        @functools.wraps(train)
        def run(state: ElasticState, *arguments: Parameters.args, **named: Parameters.kwargs) -> Result | None:
            if not isinstance(state, ElasticState):
                raise ConfigError(
                    f"{train.__name__}: its first argument must be a sotto.ElasticState, not {type(state).__name__}")
            if dist.is_initialized():
                raise ConfigError("sotto.elastic makes the process group of each group of ranks; leave init_process_group out")
            with _asked_to_end() as asked:
                job = _Job(place, file, seconds, absence, state, asked)
                return job.run(lambda: train(state, *arguments, **named))

        return run

    return decorate


class _Change(BaseException):
    """The group changes. No Exception, which the function might catch."""


class _Leave(BaseException):
    """This rank was asked to end."""


class _Over(BaseException):
    """The coordinator ends the job because of a failure."""


class _Job:
    def __init__(self, coordinator: str, secret: str | None, timeout: float, wait: float, state: ElasticState, asked: Callable[[], int]) -> None:
        self._timeout = timeout
        self._state = state
        self._asked = asked
        self._wishes: tuple[torch.Tensor, Any] | None = None  # on their way
        self._leaving: list[dist.ProcessGroup] = []  # of the last generation, which others may not have left
        self._called: int | None = None  # commits before the function was called
        self._first = True  # this rank had no state before
        self._new = False  # some rank of the group had none
        state._commits, state._owed, state._wrappers = [], [], []
        try:
            self._member = Member(coordinator, secret, wait, asked)
        except CommError:
            if not asked():
                raise
            raise SystemExit(128 + asked()) from None

    def run(self, train: Callable[[], Any]) -> Any:
        words, failed = "it was interrupted", False
        try:
            if not self._member.join():
                write("sotto: the run has come to its end without this rank")
                words = ""
                return None
            while True:
                before = self._called
                try:
                    result = self._generation(train)
                    words = ""
                    return result
                except _Change as change:
                    reason = str(change)
                self._member.next(reason, before is not None and self._called is not None and self._called > before)
        except _Leave:
            words = f"rank {self._member.id()}: stopped by signal {self._asked()}"
            raise SystemExit(128 + self._asked()) from None
        except _Over as over:
            words, failed = str(over), True
            raise CommError(f"{words}; this job ends at a failure. The state is now the last commit's, to be saved") from None
        except Exception as error:
            if self._asked() and isinstance(error, CommError):
                words = f"rank {self._member.id()}: stopped by signal {self._asked()}"
                raise SystemExit(128 + self._asked()) from None
            words, failed = f"{type(error).__name__}: {_first_line(error)}", not (isinstance(error, ConfigError) and self._first)
            raise
        finally:
            self._member.leave(words, failed)

    def _generation(self, train: Callable[[], Any]) -> Any:
        """One group of ranks, from its first meeting to its end."""
        member, state = self._member, self._state
        before = _check.default_timeout
        try:
            store = self._store = member.meet(self._timeout)  # kept: torch does not
            close(self._leaving)  # whoever still holds them
            self._leaving = []
            dist.init_process_group("gloo", store=store, rank=member.rank(), world_size=member.ranks(),
                                    timeout=timedelta(seconds=self._timeout))
            self._synchronise()
            if member.failure():
                self._await_others()
                raise _Over(member.failure())
            state._group = self
            _state.on_remember, _check.default_timeout = state._wrapped, self._timeout
            result = train()
            self._await_others()
            return result
        except (_Change, _Leave, _Over) as error:
            change: BaseException = error
            _forget_frames(error)
        except BaseException as error:
            close(all_groups())  # so that others, which may wait for this rank, hear of it at once
            state._give_up(_first_line(error))
            lost = _is_loss(error)
            if not lost and not self._is_about_newcomer(error):
                raise
            change = _Leave() if lost and self._asked() else _Change(_first_line(error))
            _forget_frames(error)
        finally:
            state._group = None
            state._give_up(GIVEN_UP)
            _state.on_remember, _check.default_timeout = None, before
            self._wishes = None
            self._leaving = all_groups()
            if dist.is_initialized():
                dist.destroy_process_group()
        gc.collect()
        raise change.with_traceback(None)

    def _synchronise(self) -> None:
        """All ranks take up the newest commit that all have; those that have none get it from the first one that has."""
        state, rank = self._state, self._member.rank()
        own = state._commits[-1].number if state._commits else -1
        numbers = [torch.zeros(1, dtype=torch.int64) for _ in range(self._member.ranks())]
        dist.all_gather(numbers, torch.tensor([own]))
        newest = [int(number) for number in numbers]
        old = [r for r, number in enumerate(newest) if number >= 0]
        self._first, self._new = own < 0, len(old) < len(newest)
        if own >= 0:
            state._go_back(min(newest[r] for r in old))
        elif not old and rank == 0:
            state._commits = [state._copy(0)]
        source = old[0] if old else 0
        takers = [r for r, number in enumerate(newest) if number < 0 and r != source]
        if takers:
            data = send_from(source, takers, rank, state._packed() if rank == source else None)
            if rank in takers:
                state._take_up(data)
        dist.all_reduce(torch.zeros(1))  # nobody makes a new commit while another may keep an old one of the same number
        self._called = state._commits[-1].number
        if rank == 0:
            write(f"sotto: group {self._member.generation()}: {self._member.ranks()} ranks continue from commit {self._called}")

    # For the state.

    def agree_on_change(self) -> bool:
        """Whether a wish that some rank had at the last commit makes all of them leave the group now."""
        if self._wishes is None:
            return False
        wishes, work = self._wishes
        work.wait()
        self._wishes = None
        return bool(wishes.sum() > 0)

    def tell_wishes(self) -> None:
        wishes = torch.tensor([float(self._asked() != 0), float(self._member.wants_change())])
        self._wishes = wishes, dist.all_reduce(wishes, async_op=True)

    def leave(self) -> NoReturn:
        # Neighbours may need this rank until they have made this commit. One that is lost before it has made it does no harm:
        # all others keep the commit before it, too.
        with contextlib.suppress(Exception):
            dist.all_reduce(torch.zeros(1))
        if self._asked():
            raise _Leave
        raise _Change("the group changes")

    def _await_others(self) -> None:
        """So no rank ends while another may have to go back to a commit."""
        self.agree_on_change()
        dist.all_reduce(torch.zeros(1))

    def _is_about_newcomer(self, error: BaseException) -> bool:
        """Whether a refusal is probably the fault of a rank that came with this group, and has other arguments."""
        refused = isinstance(error, ConfigError) or "DDP expects same model" in str(error)
        return (refused and self._new and not self._first
                and self._state._commits[-1].number == self._called)


def _first_line(error: BaseException) -> str:
    return (str(error).splitlines() or [type(error).__name__])[0]


def _chain(error: BaseException | None) -> Iterator[BaseException]:
    seen: set[int] = set()
    while error is not None and id(error) not in seen:
        seen.add(id(error))
        yield error
        error = error.__cause__ or (None if error.__suppress_context__ else error.__context__)


def _is_loss(error: BaseException) -> bool:
    """Whether an exception, or what it came from, says that a peer was lost. Gloo's own are plain RuntimeErrors."""
    return isinstance(error, Exception) and any(isinstance(one, (CommError, dist.DistError))
               or isinstance(one, RuntimeError) and any(word in str(one) for word in ("gloo/", "pair closure"))
               for one in _chain(error))


def _forget_frames(error: BaseException) -> None:
    """Drops what the function's variables hold: modules that are still connected to the ranks of this group."""
    for one in _chain(error):
        traceback.clear_frames(one.__traceback__)


@contextmanager
def _asked_to_end() -> Iterator[Callable[[], int]]:
    """Within it SIGTERM is only noted, unless somebody handles it already; a second one, two seconds later, ends the process."""
    number, since = 0, 0.0

    def note(signum: int, frame: Any) -> None:
        nonlocal number, since
        if number and time.monotonic() - since > 2:
            signal.signal(signum, signal.SIG_DFL)
            os.kill(os.getpid(), signum)
        if not number:
            number, since = signum, time.monotonic()

    own = threading.current_thread() is threading.main_thread() and signal.getsignal(signal.SIGTERM) is signal.SIG_DFL
    if own:
        signal.signal(signal.SIGTERM, note)
    try:
        yield lambda: number
    finally:
        if own:
            signal.signal(signal.SIGTERM, signal.SIG_DFL)
