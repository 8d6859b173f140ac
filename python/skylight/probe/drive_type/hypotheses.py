"""What a target may be, and how likely each is after all that was seen.

A *model* is a list of traits; a *clue* is what an experiment showed, with its chance under each model, by the
traits that it looks at. The posterior is the prior times the chances, over all models. So what a log proves
(writes go to a log) and what only the cost of bringing blocks home proves (shingling) stay apart: without the
second, a log leaves shingled disks and ordinary disks with a log as far apart as the priors have them.

Invariants: priors and chances that no evidence gives stand in one table, `skylight.infer.priors`; a model
that fits nothing (`none of these`) is always in the list, so no posterior is 1.

Source: docs/tests/drive-type.md, "What it may be".
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Literal

from skylight.findings import UNKNOWN
from skylight.infer.priors import CHOSEN, PRIORS, SHOWS_BANDS

Lands = Literal["home", "log", "flash", "unseen", "anywhere"]

PLAIN_CHANCE = 0.05  # of what is said in words


@dataclass(frozen=True, slots=True)
class Model:
    """One kind of target: its name in `PRIORS`, what it means for the findings, and its traits.

    `lands` says where small writes go at the start of the addresses, `lands_elsewhere` in their other parts
    if not there as well; `maps`, whether blocks never written are answered without a medium; `alone`, whether
    a block goes home by itself, and `with_band`, whether it takes its band along: neither where none does;
    `relays`, whether blocks leave at once for where they do not stay either;
    `rewrites`, whether only the regions written of late are written in place, for which others are
    rewritten."""

    name: str
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
    def prior(self) -> float:
        """How common it is."""
        return PRIORS[self.name]

    @property
    def rotates(self) -> bool:
        """Whether reads of what was written wait for a platter."""
        return self.lands != "unseen"


MODELS: tuple[Model, ...] = (
    Model("not a rotating disk", "not-rotating", "none", "unseen"),
    Model("a disk written in place", "cmr", "none", "home"),
    Model("several disks written in place", "cmr", "none", "home"),
    Model("a thin volume or a sparse file on such a disk", "cmr", "none", "home", maps=True),
    Model("a shingled disk with a log on its platters", "smr", "disk", "log", with_band=True),
    Model("a shingled disk, in part written in place", "smr", "disk", "home", "log", with_band=True),
    Model("a thin volume on a shingled disk", "smr", "disk", "log", maps=True, with_band=True),
    Model(
        "a shingled disk behind a mapper of zones",
        "smr",
        "disk",
        "home",
        with_band=True,
        rewrites=True,
    ),
    Model("a shingled disk with a flash cache", "smr", "flash", "flash", with_band=True),
    Model("an ordinary disk with a log on its platters", "cmr", "disk", "log", alone=True),
    Model("an ordinary disk, in part with a log", "cmr", "disk", "home", "log", alone=True),
    Model("a log before any disk, which may have one too", UNKNOWN, "disk", "log", relays=True),
    Model("a cache before any disk, which may have one too", UNKNOWN, UNKNOWN, "flash", relays=True),
    Model("a log-structured volume on any disk", UNKNOWN, "disk", "log", maps=True),
    Model("an ordinary disk behind flash or memory", "cmr", UNKNOWN, "flash", alone=True),
    Model("a volume behind which no disk shows", UNKNOWN, UNKNOWN, "unseen", maps=True),
    Model("none of these", UNKNOWN, UNKNOWN, "anywhere"),
)


@dataclass(frozen=True, slots=True)
class Clue:
    """What an experiment showed: its chance under each model, in words, the steps it rests on, and whether it
    is that blocks take their band along, wherever writes land."""

    chance: Callable[[Model], float]
    words: str = ""
    rows: tuple[str, ...] = ()
    of_bands: bool = False


def landing(where: Lands | Literal["either"]) -> Clue:
    """Writes at the start were seen to land there; `either` is a log or flash."""
    mistaken = CHOSEN["landing mistaken"]

    def chance(model: Model) -> float:
        if where == "either":
            return 1.0 if model.lands in ("log", "flash") else mistaken
        return 1.0 if model.lands == where else mistaken

    return Clue(chance)


def unwritten(quick: bool) -> Clue:
    """Whether blocks never written were answered without a platter, though others were not."""
    with_map = CHOSEN["unwritten is quick, with a map"]
    without = CHOSEN["unwritten is quick, without a map"]
    return Clue(lambda model: _of(quick, with_map if model.maps else without))


def elsewhere(
    in_place: int, not_in_place: int, unclear: int, words: str, rows: tuple[str, ...], *, appended: int = 0
) -> Clue:
    """How many of the other parts of the addresses are written in place, how many not, how many are unclear,
    and how many are appended to a log whatever comes between their writes."""

    def chance(model: Model) -> float:
        lands = model.lands_elsewhere or model.lands
        share = 1.0 - CHOSEN["part mistaken"] if lands == "home" else CHOSEN["part mistaken"]
        if model.lands_elsewhere is not None:
            share = CHOSEN["part in place"]
        at_home, away = CHOSEN["part unclear, in place"], CHOSEN["part unclear, elsewhere"]
        looks_like_neither = share * at_home + (1.0 - share) * away
        in_place_all_over = lands == "home" and model.lands_elsewhere is None
        in_log = CHOSEN["part appended, in place"] if in_place_all_over else 1.0 - share
        seen = share**in_place * (1.0 - share) ** not_in_place * looks_like_neither**unclear
        return float(seen * in_log**appended)

    return Clue(chance, words, rows)


def cost(*, with_band: bool, words: str, rows: tuple[str, ...]) -> Clue:
    """A block was seen to take its band along, or to go home by itself."""
    mistaken = CHOSEN["cost mistaken"]
    return Clue(
        lambda model: 1.0 if (model.with_band if with_band else model.alone) else mistaken,
        words,
        rows,
        with_band,
    )


def bands(words: str, rows: tuple[str, ...]) -> Clue:
    """Later tests saw bands. Taken for shingled disks, none of thirteen devices of `bench/foreign` that keep
    what is written in a log or a cache, or on a volume, showed any: one in fifteen by Laplace's rule."""
    mistaken = SHOWS_BANDS.laplace
    return Clue(lambda model: 1.0 if model.with_band else mistaken, words, rows, of_bands=True)


def relayed(words: str, rows: tuple[str, ...]) -> Clue:
    """Blocks were seen to leave by themselves, and not to lie at home: what took them may log them again."""
    mistaken = CHOSEN["cost mistaken"]
    return Clue(lambda model: 1.0 if model.relays else mistaken, words, rows)


def zones_declared() -> Clue:
    """The target declares zones with write pointers: shingled disks do, and flash."""
    mistaken = CHOSEN["zones declared, not shingled"]
    words = "It declares zones that are to be written in order."
    return Clue(lambda model: 1.0 if model.with_band or not model.rotates else mistaken, words, ("zones",))


def stalls() -> Clue:
    """Writes waited as long as for bands to be cleaned."""
    return Clue(lambda model: 1.0 if model.with_band else CHOSEN["stalls mistaken"])


def rewrites(*, seen: bool, by_chance: float = 0.0) -> Clue:
    """Whether writes all over the addresses waited as for regions to be rewritten, and the chance that they
    did for another reason."""
    mistaken, missed = CHOSEN["rewrites, written in place"], CHOSEN["no rewrites, a mapper"]

    def chance(model: Model) -> float:
        if seen:
            otherwise = CHOSEN["rewrites, a map"] if model.maps else mistaken
            return 1.0 if model.rewrites else max(otherwise, by_chance)
        return missed if model.rewrites else 1.0

    plain = seen and by_chance <= PLAIN_CHANCE
    words = "Writes to new places wait as for whole regions to be rewritten, others do not." if plain else ""
    rows = ("writes-all-over", "writes-all-over-control") if plain else ("writes-all-over",)
    return Clue(chance, words, rows)


def unmoved(words: str, rows: tuple[str, ...]) -> Clue:
    """No block went home in minutes without commands."""
    never = CHOSEN["never moves"]
    return Clue(lambda model: never if model.with_band or model.alone or model.relays else 1.0, words, rows)


def flush(slow: bool) -> Clue:
    """Whether FLUSH takes as long as a platter does, where no platter shows otherwise."""
    disk, flash = CHOSEN["slow FLUSH, a disk behind"], CHOSEN["slow FLUSH, flash"]
    return Clue(lambda model: _of(slow, disk if model.maps else flash))


def _of(shown: bool, chance: float) -> float:
    return chance if shown else 1.0 - chance


def posterior(clues: Sequence[Clue]) -> dict[Model, float]:
    """The models with how likely each is, the likeliest first."""
    weight = {}
    for model in MODELS:
        weight[model] = model.prior
        for clue in clues:
            weight[model] *= CHOSEN["anything"] if model.lands == "anywhere" else clue.chance(model)
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
