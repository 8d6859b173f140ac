"""What a kernel puts between a host and a conventional disk: checksums with a journal, snapshots, a bitmap of
dirty regions, moved segments; and a raw shingled disk behind a mapper of zones."""

from __future__ import annotations

from collections import OrderedDict

import numpy as np

from devices.base import BLOCK, FLUSH, GIB, MIB, READ, SECOND, US, WRITE, Device, Disk, blocks_of, merged

MEMORY_NS = 10 * US
"""A command that a kernel answers from memory."""


class Integrity(Device):
    """Checksums with a journal (dm-integrity): a write ends in memory; FLUSH, or ten seconds, writes what is
    there to the journal in one go; from half a journal on, and when idle, the journal is written home, with
    the tags in front of each group of addresses."""

    journal_bytes = 64 * MIB
    group, tags = 128 * MIB, MIB
    commit_ns = 10 * SECOND

    def __init__(self, name: str, disk: Disk) -> None:
        """An empty journal at the outer diameter."""
        super().__init__(name, (disk.size - self.journal_bytes) // 130 * 128, reports_write_cache=True)
        self.disk = disk
        self.fresh: dict[int, None] = {}
        self.journaled: dict[int, None] = {}
        self.head = 0
        self.first_ns = 0

    def home(self, offset: int) -> int:
        """Where an address lies, behind the tags of its group."""
        return self.journal_bytes + offset + (offset // self.group + 1) * self.tags

    @property
    def used_bytes(self) -> int:
        """Where its last address ends on the disk."""
        return self.home(self.size - BLOCK) + BLOCK

    def serve(self, op: int, offset: int, size: int, at_ns: int) -> int:
        """Writes end in memory while the journal has space."""
        if self.fresh and at_ns - self.first_ns > self.commit_ns:
            self.commit(at_ns)
        if op == FLUSH:
            return self.disk.command(FLUSH, 0, 0, self.commit(at_ns))
        blocks = blocks_of(offset, size)
        if op == READ:
            if all(block in self.fresh or block in self.journaled for block in blocks):
                return at_ns + MEMORY_NS
            tags_ns = self.disk.command(
                READ, self.home(offset // self.group * self.group) - self.tags, BLOCK, at_ns
            )
            return self.disk.command(READ, self.home(offset), size, tags_ns)
        if (len(self.fresh) + len(self.journaled) + len(blocks)) * BLOCK > self.journal_bytes // 2:
            at_ns = self.write_home(self.commit(at_ns))
        if not self.fresh:
            self.first_ns = at_ns
        self.fresh.update(dict.fromkeys(blocks))
        return at_ns + MEMORY_NS + size // 2

    def commit(self, at_ns: int) -> int:
        """Appends what is in memory to the journal; the end."""
        if not self.fresh:
            return at_ns
        length = -(-len(self.fresh) * 9 // 8) * BLOCK
        if self.head + length > self.journal_bytes:
            self.head = 0
        at_ns = self.disk.command(WRITE, self.head, min(length, self.journal_bytes), at_ns)
        self.head += length
        self.journaled.update(self.fresh)
        self.fresh.clear()
        return at_ns

    def write_home(self, at_ns: int) -> int:
        """Writes the journal home, tags after data; the end."""
        extents = merged(sorted(self.journaled))
        groups = sorted({offset // self.group for offset, _ in extents})
        self.journaled.clear()
        at_ns = self.disk.write_all([(self.home(offset), size) for offset, size in extents], at_ns)
        tags = [(self.home(group * self.group) - self.tags, BLOCK) for group in groups]
        return self.disk.write_all(tags, at_ns)

    def rest(self, from_ns: int, to_ns: int) -> None:
        """Commits and writes home ten seconds after a write."""
        at_ns = from_ns + self.commit_ns
        if at_ns < to_ns and (self.fresh or self.journaled):
            self.write_home(self.commit(at_ns))


class Snapshot(Device):
    """A volume of which a snapshot was taken: the first write of a chunk copies it away and notes that."""

    chunk = 64 << 10

    def __init__(self, name: str, disk: Disk) -> None:
        """The last eighth of the disk holds what the snapshot keeps."""
        super().__init__(name, disk.size * 7 // 8)
        self.disk = disk
        self.copied: set[int] = set()

    def serve(self, op: int, offset: int, size: int, at_ns: int) -> int:
        """Copies chunk by chunk, then writes."""
        if op == WRITE:
            for chunk in range(offset // self.chunk, -(-(offset + size) // self.chunk)):
                if chunk in self.copied:
                    continue
                place = self.size + 16 * MIB + len(self.copied) * self.chunk
                if place + self.chunk > self.disk.size:
                    continue
                self.copied.add(chunk)
                start = min(chunk * self.chunk, self.disk.size - self.chunk)
                at_ns = self.disk.command(READ, start, self.chunk, at_ns)
                at_ns = self.disk.command(WRITE, place, self.chunk, at_ns)
                at_ns = self.disk.command(WRITE, self.size + len(self.copied) // 256 * BLOCK, BLOCK, at_ns)
        return self.disk.command(op, offset, size, at_ns)


class DirtyRegions(Device):
    """A disk with a map of regions that are being written (a write-intent bitmap, an activity log): the first
    write of a region waits until the map is on the disk; a region that is left alone is taken out again."""

    def __init__(self, name: str, disk: Disk, region: int, most: int, at_end: bool, clears_ns: int) -> None:
        """Regions of `region` bytes, at most `most` of them, noted at the start or the end of the disk."""
        super().__init__(name, disk.size - 64 * MIB)
        self.disk, self.region, self.most, self.clears_ns = disk, region, most, clears_ns
        self.map_at = disk.size - 32 * MIB if at_end else 0
        self.first = 0 if at_end else 64 * MIB
        self.dirty: OrderedDict[int, None] = OrderedDict()
        self.noted = 0

    def serve(self, op: int, offset: int, size: int, at_ns: int) -> int:
        """The map first, then the data."""
        if op == FLUSH:
            return self.disk.command(FLUSH, 0, 0, at_ns)
        if op == WRITE:
            regions = range(offset // self.region, (offset + size - 1) // self.region + 1)
            if any(region not in self.dirty for region in regions):
                at_ns = self.note(at_ns)
            for region in regions:
                self.dirty[region] = None
                self.dirty.move_to_end(region)
            while len(self.dirty) > self.most:
                self.dirty.popitem(last=False)
        return self.disk.command(op, self.first + offset, size, at_ns)

    def note(self, at_ns: int) -> int:
        """Writes a block of the map; the end."""
        self.noted += 1
        return self.disk.command(WRITE, self.map_at + self.noted % 16 * BLOCK, BLOCK, at_ns)

    def rest(self, from_ns: int, to_ns: int) -> None:
        """Takes out all regions when nobody wrote for a while."""
        if self.dirty and from_ns + self.clears_ns < to_ns:
            self.dirty.clear()
            self.note(from_ns + self.clears_ns)


class Segments(Device):
    """A volume of segments that were moved about on the disk, as years of resizing leave it."""

    def __init__(self, name: str, disk: Disk, segment: int, seed: int) -> None:
        """Segments of `segment` bytes in random order."""
        super().__init__(name, disk.size // segment * segment)
        self.disk, self.segment = disk, segment
        self.places = np.random.default_rng(seed).permutation(self.size // segment).tolist()

    def serve(self, op: int, offset: int, size: int, at_ns: int) -> int:
        """A command over a border is done in parts."""
        if op == FLUSH:
            return self.disk.command(FLUSH, 0, 0, at_ns)
        end = offset + size
        while offset < end:
            number, within = divmod(offset, self.segment)
            length = min(self.segment - within, end - offset)
            at_ns = self.disk.command(op, self.places[number] * self.segment + within, length, at_ns)
            offset += length
        return at_ns


class ZoneMapper(Device):
    """A raw shingled disk behind a mapper of zones (dm-zoned): a chunk that is not written at its write
    pointer gets a conventional zone as buffer; when there is none left, or nothing to do, a chunk is
    gathered and written to an empty zone from its start to its end."""

    zone = 256 * MIB
    buffers = 16
    spare = 8
    idle_ns = 10 * SECOND

    def __init__(self, name: str, disk: Disk) -> None:
        """All chunks were written once; the platters are those of `disk`, of which the mapper writes whole
        zones only, beside its conventional ones at the outer diameter."""
        zones = disk.size // self.zone
        chunks = zones - self.buffers - 1 - self.spare
        super().__init__(name, chunks * self.zone)
        self.disk = disk
        self.places = [1 + self.buffers + chunk for chunk in range(chunks)]
        self.empty = list(range(1 + self.buffers + chunks, zones))
        self.unused = list(range(1, 1 + self.buffers))
        self.buffered: OrderedDict[int, tuple[int, set[int]]] = OrderedDict()

    def serve(self, op: int, offset: int, size: int, at_ns: int) -> int:
        """A command over a border of chunks is done in parts."""
        if op == FLUSH:
            return self.disk.command(FLUSH, 0, 0, at_ns)
        end = offset + size
        while offset < end:
            chunk, within = divmod(offset, self.zone)
            length = min(self.zone - within, end - offset)
            at_ns = self.chunk(op, chunk, within, length, at_ns)
            offset += length
        return at_ns

    def chunk(self, op: int, chunk: int, within: int, length: int, at_ns: int) -> int:
        """A part of one chunk."""
        blocks = blocks_of(within, length)
        if op == READ:
            buffer, valid = self.buffered.get(chunk, (0, set[int]()))
            zone = buffer if blocks[0] in valid else self.places[chunk]
            return self.disk.command(READ, zone * self.zone + within, length, at_ns)
        if chunk not in self.buffered:
            if not self.unused:
                at_ns = self.reclaim(at_ns)
            self.buffered[chunk] = (self.unused.pop(0), set())
            at_ns = self.disk.command(WRITE, chunk % 4096 * BLOCK, BLOCK, at_ns)
        self.buffered.move_to_end(chunk)
        buffer, valid = self.buffered[chunk]
        valid.update(blocks)
        return self.disk.command(WRITE, buffer * self.zone + within, length, at_ns)

    def reclaim(self, at_ns: int) -> int:
        """Gathers the chunk that was left alone for longest; the end."""
        chunk, (buffer, valid) = self.buffered.popitem(last=False)
        old, new = self.places[chunk], self.empty.pop(0)
        for start, size in merged(sorted(valid)):
            at_ns = self.disk.command(READ, buffer * self.zone + start, size, at_ns)
        for start in range(0, self.zone, 16 * MIB):
            at_ns = self.disk.command(READ, old * self.zone + start, 16 * MIB, at_ns)
            at_ns = self.disk.command(WRITE, new * self.zone + start, 16 * MIB, at_ns)
        self.places[chunk] = new
        self.empty.append(old)
        self.unused.append(buffer)
        return self.disk.command(WRITE, chunk % 4096 * BLOCK, BLOCK, at_ns)

    def rest(self, from_ns: int, to_ns: int) -> None:
        """Reclaims while nobody comes."""
        at_ns = from_ns + self.idle_ns
        while self.buffered and at_ns < to_ns:
            at_ns = self.reclaim(max(at_ns, self.disk.now_ns))


class RecordVolume(Device):
    """A volume of a copy-on-write file system (a zvol): records of 128 KiB are changed in memory and written
    to new places together, every five seconds or when 256 MiB have changed; FLUSH appends to a log of
    intents."""

    record = 128 << 10
    group_ns = 5 * SECOND
    most_records = 2048
    kept_records = 8192

    def __init__(self, name: str, disk: Disk) -> None:
        """An empty volume of half the disk."""
        super().__init__(name, disk.size // 2, reports_write_cache=True)
        self.disk = disk
        self.places: dict[int, int] = {}
        self.changed: dict[int, int] = {}
        self.kept: OrderedDict[int, None] = OrderedDict()
        self.head = GIB
        self.unlogged = 0
        self.first_ns = 0

    def serve(self, op: int, offset: int, size: int, at_ns: int) -> int:
        """Writes end in memory; reads of what memory has not come from the disk, record by record."""
        if self.changed and at_ns - self.first_ns > self.group_ns:
            self.sync(at_ns)
        if op == FLUSH:
            logged, self.unlogged = min(self.unlogged, 64 * MIB), 0
            return self.append(logged + BLOCK, at_ns) if logged else at_ns + MEMORY_NS
        records = range(offset // self.record, (offset + size - 1) // self.record + 1)
        if op == READ:
            for record in records:
                if record in self.changed or record in self.kept or record not in self.places:
                    continue
                at_ns = self.disk.command(READ, self.places[record], self.record, at_ns)
                self.keep(record)
            return at_ns + MEMORY_NS + size // 4
        if len(self.changed) + len(records) > self.most_records:
            at_ns = self.sync(at_ns)
        if not self.changed:
            self.first_ns = at_ns
        for record in records:
            self.changed[record] = self.changed.get(record, 0) + min(size, self.record)
        self.unlogged += size
        return at_ns + MEMORY_NS + size // 4

    def keep(self, record: int) -> None:
        """Remembers a record that was read or written."""
        self.kept[record] = None
        self.kept.move_to_end(record)
        if len(self.kept) > self.kept_records:
            self.kept.popitem(last=False)

    def append(self, size: int, at_ns: int) -> int:
        """Writes at the head of the free space; the end."""
        if self.head + size > self.disk.size - GIB:
            self.head = GIB
        self.head += size
        return self.disk.command(WRITE, self.head - size, size, at_ns)

    def sync(self, at_ns: int) -> int:
        """Writes what has changed to new places, and the root at four places; the end."""
        for record, size in self.changed.items():
            if size < self.record and record in self.places and record not in self.kept:
                at_ns = self.disk.command(READ, self.places[record], self.record, at_ns)
            at_ns = self.append(self.record, at_ns)
            self.places[record] = self.head - self.record
            self.keep(record)
        self.changed.clear()
        self.unlogged = 0
        for label in (0, 256 << 10, self.disk.size - MIB, self.disk.size - MIB // 2):
            at_ns = self.disk.command(WRITE, label // BLOCK * BLOCK, BLOCK, at_ns)
        return at_ns

    def rest(self, from_ns: int, to_ns: int) -> None:
        """Five seconds later all is on the disk."""
        if self.changed and from_ns + self.group_ns < to_ns:
            self.sync(from_ns + self.group_ns)
