"""Which limit ended a fill of a journaled cache, its slots or its map, from what fills were seen."""

from __future__ import annotations

from dataclasses import replace

import pytest

from skylight.probe.cache_size.fill_check import Fill
from skylight.probe.cache_size.which_limit import limits, limits_by_larger


@pytest.mark.parametrize(
    ("blocks", "places", "entries"), [(900, None, 900), (970, None, None), (1_100, None, None)]
)
def test_blocks_that_may_have_used_the_places_up_are_no_map(
    blocks: int, places: int | None, entries: int | None
) -> None:
    """A fill with whole quanta that met no limit that counts shows how many places there are at least. How
    many blocks take is known to 6 % (drive 99655 drawn)."""
    quanta = Fill("fill", 1 << 20, 1, 1_000, 1_000, False, 8.0, 1e7, 31.0)
    deep = Fill("map", 4096, 0, blocks, 0, True, 8.0, 1e7, 31.0)
    assert limits([quanta], [deep], 1 << 20, flushed=True) == (places, entries)


@pytest.mark.parametrize(("blocks", "places"), [(47_813, None), (6_000, 413)])
def test_blocks_that_took_more_places_contradict_an_end_with_whole_quanta(
    blocks: int, places: int | None
) -> None:
    """100688 drawn: other clients' delays beside a merge of the map passed for cleaning after 413 quanta."""
    quanta = Fill("fill", 1 << 20, 1, 413, 413, True, 8.0, 1e7, 31.0)
    deep = Fill("map", 4096, 0, blocks, blocks, True, 8.0, 1e7, 1.0)
    assert limits([quanta], [deep], 1 << 20)[0] == places


@pytest.mark.parametrize(
    ("blocks", "flushed", "entries"), [(900, True, None), (900, False, 900), (700, True, 700)]
)
def test_blocks_of_a_volatile_cache_may_end_at_the_watermark_of_the_places(
    blocks: int, flushed: bool, entries: int | None
) -> None:
    """As of random drive 100568, with a map that never fills: lone writes took the places above a watermark,
    what left the volatile cache, a place each, did not."""
    quanta = Fill("large", 6 << 20, 6, 170, 1_020, True, 8.0, 1e7, 31.0)
    deep = Fill("map", 4096, 0, blocks, blocks, True, 8.0, 1e7, 1.0, group=31)
    assert limits([quanta], [deep], 1 << 20, flushed=flushed) == (1_020, entries)


@pytest.mark.parametrize(
    ("slow", "after", "places"),
    [(False, None, 1_000), (True, None, None), (True, 1_050, None), (True, 1_500, 1_000)],
)
def test_a_fill_that_stays_slow_is_one_without_a_limit_up_to_there(
    slow: bool, after: int | None, places: int | None
) -> None:
    """Where the order of cleaning is random, neither the first nor the newest writes need be home; but a map
    that took 1,500 blocks before any waited did not end a fill with 1,000 quanta (103835 drawn)."""
    quanta = Fill("fill", 1 << 20, 1, 1_000, 1_000, True, 8.0, 1e7, 31.0)
    deep = Fill("map", 4096, 0, 2_000, 0, False, 0.0, 0.0, 0.0, 0, slow, after)
    assert limits([quanta], [deep], 1 << 20, flushed=True) == (places, None)


@pytest.mark.parametrize(("blocks", "places"), [(1_100, 1_000), (1_050, None), (40, None)])
def test_fewer_blocks_than_whole_quanta_show_no_map_without_a_limit(blocks: int, places: int | None) -> None:
    """99395 and 99538 drawn: there was no time for as many blocks, and a full map was taken for all slots."""
    quanta = Fill("fill", 1 << 20, 1, 1_000, 1_000, True, 8.0, 1e7, 31.0)
    deep = Fill("map", 4096, 0, blocks, 0, False, 0.0, 0.0, 0.0)
    assert limits([quanta], [deep], 1 << 20) == (places, None)


@pytest.mark.parametrize(("places", "entries"), [(40_000, 70_000), (60_000, None)])
def test_newest_blocks_count_a_map_where_rewriting_passed_through_all_slots(
    places: int, entries: int | None
) -> None:
    """99446 drawn: whole quanta cleaned the first writes, so for slots, and blocks the newest, so for the
    map. Rewriting of 64 GiB leaves nothing older in slots that hold less, whatever a watermark keeps."""
    quanta = Fill("fill", 1 << 20, 1, places, places, True, 8.0, 1e7, 31.0)
    deep = Fill("map", 4096, 0, 70_000, 0, False, 8.0, 1e7, 31.0, slow=True, newest=True)
    assert limits([quanta], [deep], 1 << 20) == (places, entries)
    unseen = replace(quanta, ended=False)
    assert limits([unseen], [deep], 1 << 20) == (None, None)


@pytest.mark.parametrize(("blocks", "places"), [(1_600, 23), (7_220, None)])
def test_blocks_that_met_no_limit_took_no_more_places_than_there_are(blocks: int, places: int | None) -> None:
    """99881 drawn: 23 slots were counted, and 7,220 blocks went on without a wait."""
    quanta = Fill("fill", 1 << 20, 1, 23, 23, True, 8.0, 1e7, 31.0)
    deep = Fill("map", 4096, 0, blocks, 0, False, 0.0, 0.0, 0.0)
    assert limits([quanta], [deep], 1 << 20) == (places, None)


@pytest.mark.parametrize(
    ("slow_after", "blocks", "places", "entries"),
    [
        (980, 1_000, None, 1_000),
        (1_100, 1_000, 8_800, 1_000),
        (700, 1_000, None, 1_000),
        (700, 5_600, None, None),  # 5,600 places may be all that there is
    ],
)
def test_a_fill_that_was_slow_from_where_the_map_was_full_counts_no_places(
    slow_after: int, blocks: int, places: int | None, entries: int | None
) -> None:
    """Cleaning that looks show late adds writes to a fill: these are no places."""
    quanta = Fill("large", 8 << 20, 8, 1_100, 8_800, True, 8.0, 1e7, 31.0, slow_after=slow_after)
    deep = Fill("map", 4096, 0, blocks, 0, True, 8.0, 1e7, 31.0)
    assert limits([quanta], [deep], 1 << 20, flushed=True) == (places, entries)
    # Also where writes of one quantum ended when as many places as blocks were in use.
    assert limits_by_larger([quanta], [deep], 1 << 20, blocks, flushed=True) == (places, entries)


@pytest.mark.parametrize(("group", "entries"), [(1, 403), (31, None)])
def test_of_a_small_cache_a_group_of_blocks_may_be_what_is_left(group: int, entries: int | None) -> None:
    """100568 drawn: 403 blocks in groups of 31 were less than its 438 slots: its map was taken for full."""
    larger = Fill("large", 6 << 20, 6, 73, 438, True, 8.0, 1e7, 1.0)
    blocks = Fill("map", 4096, 0, 403, 0, True, 8.0, 1e7, 1.0, group=group)
    assert limits([larger], [blocks], 1 << 20, flushed=True) == (438, entries)


@pytest.mark.parametrize(
    ("most_places", "told"),
    [
        (700.0, (1_000, 21_700)),  # of 1,000 places: the map
        (900.0, (1_000, None)),  # perhaps a watermark: lone writes go on to the last place
        (1_000.0, (1_000, None)),  # all places
        (1_400.0, (1_000, None)),  # perhaps all
    ],
)
def test_what_held_groups_take_says_which_limit_was_met(
    most_places: float, told: tuple[int, int | None]
) -> None:
    places = Fill("fill", 1 << 20, 1, 1_000, 1_000, True, 8.0, 1e7, 1.0)
    blocks = Fill("map", 4096, 0, 21_700, 21_700, True, 8.0, 1e7, 31.0, group=31, most_places=most_places)
    assert limits([places], [blocks], 1 << 20) == told
