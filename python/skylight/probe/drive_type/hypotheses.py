"""What a target may be, and how likely each is after all that was seen.

A *model* is a list of traits; a *clue* is what an experiment showed, with its chance under each model, by the
traits that it looks at. The posterior is the prior times the chances, over all models. So what a log proves
(writes go to a log) and what only the cost of bringing blocks home proves (shingling) stay apart: without the
second, a log leaves shingled disks and ordinary disks with a log as far apart as the priors have them.

Invariants: `MODELS` is the only place of priors, `CHANCES` of the chances that no evidence gives; a model
that fits nothing (`none of these`) is always in the list, so no posterior is 1.

Source: docs/tests/drive-type.md, "What it may be".
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Literal

from skylight.findings import UNKNOWN

Lands = Literal["home", "log", "flash", "unseen", "anywhere"]


@dataclass(frozen=True, slots=True)
class Model:
    """One kind of target: its prior, what it means for the findings, and its traits.

    `lands` says where small writes go at the start of the addresses, `lands_elsewhere` in their other parts
    if not there as well; `maps`, whether blocks never written are answered without a medium; `alone`, whether
    a block goes home by itself, and `with_band`, whether it takes its band along: neither where none does;
    `relays`, whether blocks leave at once for where they do not stay either;
    `rewrites`, whether only the regions written of late are written in place, for which others are
    rewritten."""

    name: str
    prior: float
    drive_type: str
    cache_medium: str
    lands: Lands
    lands_elsewhere: Lands | None = None
    maps: bool = False
    alone: bool = False
    with_band: bool = False
    relays: bool = False
    rewrites: bool = False

    @property
    def rotates(self) -> bool:
        """Whether reads of what was written wait for a platter."""
        return self.lands != "unseen"


MODELS: tuple[Model, ...] = (
    # PRIORS, not measurements: how common each is among what people probe, chosen. They decide where evidence
    # does not: between a shingled disk and an ordinary one behind a log or flash, as long as no block is seen
    # to go home. What it costs when they are wrong: such a disk is called shingled, at the confidence that
    # stands here.
    Model("not a rotating disk", 0.27, "not-rotating", "none", "unseen"),
    Model("a disk written in place", 0.2695, "cmr", "none", "home"),
    Model("several disks written in place", 0.04, "cmr", "none", "home"),
    Model("a thin volume or a sparse file on such a disk", 0.03, "cmr", "none", "home", maps=True),
    Model("a shingled disk with a log on its platters", 0.20, "smr", "disk", "log", with_band=True),
    Model("a shingled disk, in part written in place", 0.02, "smr", "disk", "home", "log", with_band=True),
    Model("a thin volume on a shingled disk", 0.005, "smr", "disk", "log", maps=True, with_band=True),
    Model(
        "a shingled disk behind a mapper of zones",
        0.003,
        "smr",
        "disk",
        "home",
        with_band=True,
        rewrites=True,
    ),
    Model("a shingled disk with a flash cache", 0.05, "smr", "flash", "flash", with_band=True),
    Model("an ordinary disk with a log on its platters", 0.025, "cmr", "disk", "log", alone=True),
    Model("an ordinary disk, in part with a log", 0.0025, "cmr", "disk", "home", "log", alone=True),
    Model("a log before any disk, which may have one too", 0.005, UNKNOWN, "disk", "log", relays=True),
    Model("a cache before any disk, which may have one too", 0.003, UNKNOWN, UNKNOWN, "flash", relays=True),
    Model("a log-structured volume on any disk", 0.010, UNKNOWN, "disk", "log", maps=True),
    Model("an ordinary disk behind flash or memory", 0.017, "cmr", UNKNOWN, "flash", alone=True),
    Model("a volume behind which no disk shows", 0.04, UNKNOWN, UNKNOWN, "unseen", maps=True),
    Model("none of these", 0.01, UNKNOWN, UNKNOWN, "anywhere"),
)

CHANCES = {
    # Chances that no evidence gives, chosen; each would have to be off by ten to change what is said.
    "anything": 0.05,  # that what is none of these shows any one sign
    "landing mistaken": 1e-4,  # the signs of a landing, of which each has a chance of 1e-6 by itself
    "unwritten is quick, without a map": 0.1,  # a drive that knows what was never written or was trimmed
    "unwritten is quick, with a map": 0.9,
    "cost mistaken": 0.005,  # both bounds of a cost are wrong: a drive that paused, or did other work first
    "bands mistaken": 0.08,  # tests that look for bands find some in what is not shingled: see `bands`
    "stalls mistaken": 0.05,  # an ordinary disk waits as long: a full log that is emptied in one go
    "never moves": 0.4,  # a drive that brings blocks home moves none in minutes: lazy, or others come first
    "part mistaken": 0.02,  # writes in place in some part of the addresses do not look so
    "part unclear, in place": 0.2,  # a part looks like neither, where the start showed writes in place
    "part unclear, elsewhere": 0.5,  # the same of writes that go to a log or a cache, packed or busy cleaning
    "part in place": 0.3,  # a part of a disk in part written in place is
    "rewrites, written in place": 1e-3,  # both controls of `scattered_writes` passed by chance: their limit
    "rewrites, a map": 0.05,  # a volume waits for new chunks, after the first of them were there already
    "no rewrites, a mapper": 0.2,  # it has more zones for writes in place than `scattered_writes.SHARE`
    "zones declared, not shingled": 0.01,  # zones with write pointers on a disk that could do without them
    "slow FLUSH, flash": 0.2,  # of flash that has no power for its own caches
    "slow FLUSH, a disk behind": 0.9,
}


@dataclass(frozen=True, slots=True)
class Clue:
    """What an experiment showed: its chance under each model, in words, and the steps it rests on."""

    chance: Callable[[Model], float]
    words: str = ""
    rows: tuple[str, ...] = ()


def landing(where: Lands | Literal["either"]) -> Clue:
    """Writes at the start were seen to land there; `either` is a log or flash."""
    mistaken = CHANCES["landing mistaken"]

    def chance(model: Model) -> float:
        if where == "either":
            return 1.0 if model.lands in ("log", "flash") else mistaken
        return 1.0 if model.lands == where else mistaken

    return Clue(chance)


def unwritten(quick: bool) -> Clue:
    """Whether blocks never written were answered without a platter, though others were not."""
    with_map = CHANCES["unwritten is quick, with a map"]
    without = CHANCES["unwritten is quick, without a map"]
    return Clue(lambda model: _of(quick, with_map if model.maps else without))


def elsewhere(in_place: int, not_in_place: int, unclear: int, words: str, rows: tuple[str, ...]) -> Clue:
    """Of the other parts of the addresses so many are written in place, so many not, and so many unclear."""

    def chance(model: Model) -> float:
        lands = model.lands_elsewhere or model.lands
        share = 1.0 - CHANCES["part mistaken"] if lands == "home" else CHANCES["part mistaken"]
        if model.lands_elsewhere is not None:
            share = CHANCES["part in place"]
        at_home, away = CHANCES["part unclear, in place"], CHANCES["part unclear, elsewhere"]
        looks_like_neither = share * at_home + (1.0 - share) * away
        return float(share**in_place * (1.0 - share) ** not_in_place * looks_like_neither**unclear)

    return Clue(chance, words, rows)


def cost(*, with_band: bool, words: str, rows: tuple[str, ...]) -> Clue:
    """A block was seen to take its band along, or to go home by itself."""
    mistaken = CHANCES["cost mistaken"]
    return Clue(
        lambda model: 1.0 if (model.with_band if with_band else model.alone) else mistaken, words, rows
    )


def bands(words: str, rows: tuple[str, ...]) -> Clue:
    """Later tests saw bands. Taken for shingled disks, none of thirteen devices of `bench/foreign` that keep
    what is written in a log or a cache, or on a volume, showed any: one in fifteen by Laplace's rule."""
    mistaken = CHANCES["bands mistaken"]
    return Clue(lambda model: 1.0 if model.with_band else mistaken, words, rows)


def relayed(words: str, rows: tuple[str, ...]) -> Clue:
    """Blocks were seen to leave by themselves, and not to lie at home: what took them may log them again."""
    mistaken = CHANCES["cost mistaken"]
    return Clue(lambda model: 1.0 if model.relays else mistaken, words, rows)


def zones_declared() -> Clue:
    """The target declares zones with write pointers: shingled disks do, and flash."""
    mistaken = CHANCES["zones declared, not shingled"]
    words = "It declares zones that are to be written in order."
    return Clue(lambda model: 1.0 if model.with_band or not model.rotates else mistaken, words, ("zones",))


def stalls() -> Clue:
    """Writes waited as long as for bands to be cleaned."""
    return Clue(lambda model: 1.0 if model.with_band else CHANCES["stalls mistaken"])


def rewrites(*, seen: bool) -> Clue:
    """Whether writes all over the addresses waited as for regions to be rewritten."""
    mistaken, missed = CHANCES["rewrites, written in place"], CHANCES["no rewrites, a mapper"]

    def chance(model: Model) -> float:
        if seen:
            return 1.0 if model.rewrites else CHANCES["rewrites, a map"] if model.maps else mistaken
        return missed if model.rewrites else 1.0

    words = "Writes to new places wait as for whole regions to be rewritten, others do not." if seen else ""
    rows = ("writes-all-over", "writes-all-over-control") if seen else ("writes-all-over",)
    return Clue(chance, words, rows)


def unmoved(words: str, rows: tuple[str, ...]) -> Clue:
    """No block went home in minutes without commands."""
    never = CHANCES["never moves"]
    return Clue(lambda model: never if model.with_band or model.alone or model.relays else 1.0, words, rows)


def flush(slow: bool) -> Clue:
    """Whether FLUSH takes as long as a platter does, where no platter shows otherwise."""
    disk, flash = CHANCES["slow FLUSH, a disk behind"], CHANCES["slow FLUSH, flash"]
    return Clue(lambda model: _of(slow, disk if model.maps else flash))


def _of(shown: bool, chance: float) -> float:
    return chance if shown else 1.0 - chance


def posterior(clues: Sequence[Clue]) -> dict[Model, float]:
    """The models with how likely each is, the likeliest first."""
    weight = {}
    for model in MODELS:
        weight[model] = model.prior
        for clue in clues:
            weight[model] *= CHANCES["anything"] if model.lands == "anywhere" else clue.chance(model)
    total = sum(weight.values())
    return {
        model: each / total for model, each in sorted(weight.items(), key=lambda item: -item[1]) if total > 0
    }


def likeliest(models: dict[Model, float], finding: Callable[[Model], str]) -> tuple[str, float]:
    """The likeliest value of a finding and how likely it is; unknown counts as a value like the others."""
    values: dict[str, float] = {}
    for model, chance in models.items():
        values[finding(model)] = values.get(finding(model), 0.0) + chance
    return max(values.items(), key=lambda item: item[1])
