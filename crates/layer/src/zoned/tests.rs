//! One test for each rule of zones. Zones are of 64 sectors, the first two conventional, ten in all, the last one of 32.

use skylight_command::{Command, CommandId, Failure, Op, Outcome, ZoneAction};
use skylight_disk::{Direction, Lba, LbaExtent, Pba, Sectors};

use super::{ZonedLayer, ZonedSpec};
use crate::capabilities::zoned::{
    Order, ZoneAccess, ZoneCondition, ZoneDescriptor, ZoneFilter, ZoneLayout, ZoneModel, ZoneRecord, Zoned,
};
use crate::plan::{Layer, Medium, Piece, Plan, Queue, Step};

const ZONE: u64 = 64;
const ZONES: u32 = 10;
const SECTORS: u64 = ZONE * ZONES as u64 - 32;

const INVALID: Result<(), Failure> = Err(Failure::InvalidField);
const NO_RESOURCES: Result<(), Failure> = Err(Failure::InsufficientZoneResources);

fn layout(model: ZoneModel) -> ZoneLayout {
    let mut layout = ZoneLayout::new(model, Sectors(SECTORS), Sectors(ZONE));
    layout.conventional = 2;
    layout
}

fn built(layout: ZoneLayout) -> ZonedLayer {
    ZonedLayer::new(ZonedSpec { layout, start: Pba(0), aware: None })
}

fn managed() -> ZonedLayer {
    built(layout(ZoneModel::HostManaged))
}

fn aware() -> ZonedLayer {
    built(layout(ZoneModel::HostAware))
}

fn limited(max_open: u32, max_active: Option<u32>) -> ZonedLayer {
    let mut layout = layout(ZoneModel::HostManaged);
    (layout.max_open, layout.max_active) = (Some(max_open), max_active);
    built(layout)
}

/// A command's plan and outcome.
fn plan_of(drive: &mut ZonedLayer, op: Op, start: u64, len: u64) -> (Plan, Outcome) {
    let mut plan = Plan::default();
    let command = Command::new(CommandId(1), op, LbaExtent::new(Lba(start), Sectors(len)));
    drive.take(Queue { waiting: &[command], next: 0 }, &mut plan);
    let ends: Vec<_> = plan.completions().collect();
    assert!(matches!(ends[..], [(CommandId(1), _)]), "{ends:?}");
    let outcome = ends[0].1;
    if matches!(outcome, Outcome::Failed(_)) {
        assert_eq!(plan.steps().len(), 1, "a failed command does nothing: {plan:?}");
    }
    (plan, outcome)
}

/// Runs a command; one that fails must leave every zone as it was.
fn run(drive: &mut ZonedLayer, op: Op, start: u64, len: u64) -> Result<(), Failure> {
    let before = zones(drive);
    let result = plan_of(drive, op, start, len).1.status();
    if result.is_err() {
        assert_eq!(zones(drive), before, "{op} {start} {len} fails and changes nothing");
    }
    result
}

fn at(zone: u32) -> u64 {
    u64::from(zone) * ZONE
}

/// A zone action.
fn act(drive: &mut ZonedLayer, op: Op, zone: u32) -> Result<(), Failure> {
    let LbaExtent { start, len } = drive.layout().extent_of(zone);
    run(drive, op, start.get(), len.get())
}

fn act_on_all(drive: &mut ZonedLayer, op: Op) -> Result<(), Failure> {
    run(drive, op, 0, SECTORS)
}

fn write(drive: &mut ZonedLayer, zone: u32, offset: u64, len: u64) -> Result<(), Failure> {
    run(drive, Op::Write, at(zone) + offset, len)
}

fn append(drive: &mut ZonedLayer, zone: u32, len: u64) -> Outcome {
    plan_of(drive, Op::Append, at(zone), len).1
}

fn zones(drive: &ZonedLayer) -> Vec<ZoneDescriptor> {
    let mut zones = Vec::new();
    assert_eq!(drive.report(Lba(0), ZoneFilter::All, usize::MAX, &mut zones), Ok(()));
    zones
}

fn condition(drive: &ZonedLayer, zone: u32) -> ZoneCondition {
    drive.descriptor(zone).condition
}

/// The write pointer of a zone, from its start.
fn pointer(drive: &ZonedLayer, zone: u32) -> Option<u64> {
    drive.descriptor(zone).write_pointer.map(|lba| lba.get() - at(zone))
}

#[test]
fn a_new_drive_has_conventional_zones_first_and_empty_ones_behind_them() {
    let drive = managed();
    let zones = zones(&drive);
    assert_eq!(zones.len(), ZONES as usize);
    assert!(zones[..2].iter().all(|zone| zone.condition == ZoneCondition::NotWritePointer));
    assert!(zones[2..].iter().all(|zone| zone.condition == ZoneCondition::Empty));
    assert_eq!((zones[9].len, zones[9].capacity), (Sectors(32), Sectors(32)));
    assert_eq!((zones[1].write_pointer, zones[9].write_pointer), (None, Some(Lba(at(9)))));
}

#[test]
fn writes_at_the_write_pointer_move_it_until_the_zone_is_full() {
    let mut drive = managed();
    for offset in (0..ZONE).step_by(16) {
        assert_eq!(write(&mut drive, 3, offset, 16), Ok(()));
        let expected = if offset + 16 < ZONE { ZoneCondition::ImplicitOpen } else { ZoneCondition::Full };
        assert_eq!((condition(&drive, 3), pointer(&drive, 3)), (expected, Some(offset + 16)));
    }
    assert_eq!(write(&mut drive, 9, 0, 32), Ok(()), "the last zone is smaller");
    assert_eq!(condition(&drive, 9), ZoneCondition::Full);
}

#[test]
fn writes_elsewhere_fail() {
    let mut drive = managed();
    assert_eq!(write(&mut drive, 3, 0, 16), Ok(()));
    assert_eq!(write(&mut drive, 3, 0, 16), Err(Failure::UnalignedWrite), "below");
    assert_eq!(write(&mut drive, 3, 24, 16), Err(Failure::UnalignedWrite), "beyond");
    assert_eq!(write(&mut drive, 3, 16, 49), Err(Failure::WriteBoundary), "into the next zone");
    assert_eq!(write(&mut drive, 1, 60, 8), Err(Failure::WriteBoundary), "out of the conventional zones");
    assert_eq!(write(&mut drive, 0, 60, 8), Ok(()), "across conventional zones");
    assert_eq!(act(&mut drive, Op::Zone(ZoneAction::Finish), 3), Ok(()));
    assert_eq!(write(&mut drive, 3, 16, 16), INVALID, "full");
}

#[test]
fn a_zone_of_less_capacity_is_full_at_its_capacity() {
    let mut layout = layout(ZoneModel::HostManaged);
    layout.capacity = Sectors(48);
    layout.unrestricted_reads = true;
    let mut drive = built(layout);
    assert_eq!(drive.descriptor(1).capacity, Sectors(ZONE), "of a conventional zone");
    assert_eq!(drive.descriptor(9).capacity, Sectors(32), "of the smaller one");
    assert_eq!(write(&mut drive, 2, 0, 49), Err(Failure::WriteBoundary));
    assert_eq!(write(&mut drive, 2, 0, 48), Ok(()));
    assert_eq!((condition(&drive, 2), pointer(&drive, 2)), (ZoneCondition::Full, Some(ZONE)));
    let mut pieces = Vec::new();
    drive.locate(LbaExtent::new(Lba(at(2) + 40), Sectors(32)), &mut pieces);
    let places: Vec<_> = pieces.iter().map(|piece: &Piece| (piece.extent.start, piece.extent.len)).collect();
    assert_eq!(places, [(Pba(at(2) + 40), Sectors(8)), (Pba(at(2) + 48), Sectors(8))], "zones lie close");
    assert_eq!(drive.media_use().platter, Sectors(2 * ZONE + 7 * 48 + 32));
    let (plan, outcome) = plan_of(&mut drive, Op::Read, at(2) + 40, 32);
    assert_eq!(outcome, Outcome::Done);
    let fills: Vec<_> = plan.steps().iter().filter(|step| matches!(step, Step::Fill { .. })).collect();
    assert_eq!(fills.len(), 2, "behind the capacity, and the empty zone: {plan:?}");
}

#[test]
fn an_append_goes_to_the_write_pointer_and_says_where() {
    let mut drive = managed();
    assert_eq!(append(&mut drive, 4, 8), Outcome::Appended(Lba(at(4))));
    assert_eq!(append(&mut drive, 4, 8), Outcome::Appended(Lba(at(4) + 8)));
    assert_eq!(append(&mut drive, 4, 49), Outcome::Failed(Failure::WriteBoundary));
    assert_eq!(run(&mut drive, Op::Append, at(4) + 8, 8), INVALID, "not the start of a zone");
    assert_eq!(run(&mut drive, Op::Append, 0, 8), INVALID, "a conventional zone");
    let (plan, _) = plan_of(&mut drive, Op::Append, at(4), 48);
    let Some(Step::Access { medium, extent, .. }) = plan.steps().first() else { panic!("{plan:?}") };
    assert_eq!((*medium, extent.start), (Medium::Platter, Pba(at(4) + 16)));
    assert_eq!(append(&mut drive, 4, 8), Outcome::Failed(Failure::InvalidField), "full");
}

#[test]
fn opening_and_closing_change_the_condition() {
    let mut drive = managed();
    for (op, expected) in [
        (Op::Zone(ZoneAction::Open), ZoneCondition::ExplicitOpen),
        (Op::Zone(ZoneAction::Open), ZoneCondition::ExplicitOpen),
        (Op::Zone(ZoneAction::Close), ZoneCondition::Empty),
        (Op::Zone(ZoneAction::Close), ZoneCondition::Empty),
    ] {
        assert_eq!(act(&mut drive, op, 5), Ok(()));
        assert_eq!(condition(&drive, 5), expected, "{op}");
    }
    assert_eq!(write(&mut drive, 5, 0, 8), Ok(()));
    assert_eq!(act(&mut drive, Op::Zone(ZoneAction::Open), 5), Ok(()));
    assert_eq!(condition(&drive, 5), ZoneCondition::ExplicitOpen, "an implicitly open zone");
    assert_eq!(act(&mut drive, Op::Zone(ZoneAction::Close), 5), Ok(()));
    assert_eq!(condition(&drive, 5), ZoneCondition::Closed);
    assert_eq!(write(&mut drive, 5, 8, 8), Ok(()));
    assert_eq!(condition(&drive, 5), ZoneCondition::ImplicitOpen, "a closed zone that is written");
}

#[test]
fn finishing_fills_and_resetting_empties() {
    let mut drive = managed();
    assert_eq!(write(&mut drive, 6, 0, 8), Ok(()));
    for zone in [6, 7] {
        assert_eq!(act(&mut drive, Op::Zone(ZoneAction::Finish), zone), Ok(()));
        assert_eq!((condition(&drive, zone), pointer(&drive, zone)), (ZoneCondition::Full, Some(ZONE)));
        assert_eq!(act(&mut drive, Op::Zone(ZoneAction::Finish), zone), Ok(()), "a full one");
        assert_eq!(act(&mut drive, Op::Zone(ZoneAction::Open), zone), Ok(()), "a full one");
        assert_eq!(condition(&drive, zone), ZoneCondition::Full);
        assert_eq!(run(&mut drive, Op::Read, at(zone), ZONE), Ok(()), "what was not written is there too");
        assert_eq!(act(&mut drive, Op::Zone(ZoneAction::Reset), zone), Ok(()));
        assert_eq!((condition(&drive, zone), pointer(&drive, zone)), (ZoneCondition::Empty, Some(0)));
    }
    assert_eq!(write(&mut drive, 6, 0, 8), Ok(()));
}

#[test]
fn what_is_no_zone_with_a_write_pointer_cannot_be_acted_on() {
    let mut drive = managed();
    for op in [
        Op::Zone(ZoneAction::Open),
        Op::Zone(ZoneAction::Close),
        Op::Zone(ZoneAction::Finish),
        Op::Zone(ZoneAction::Reset),
    ] {
        assert_eq!(act(&mut drive, op, 1), INVALID, "{op} of a conventional zone");
        assert_eq!(run(&mut drive, op, at(3) + 8, ZONE), INVALID, "{op} of no start");
        assert_eq!(run(&mut drive, op, at(3), 8), INVALID, "{op} of a part");
        assert_eq!(run(&mut drive, op, at(3), 2 * ZONE), INVALID, "{op} of two");
        assert_eq!(run(&mut drive, op, at(9), ZONE), INVALID, "{op} beyond the end");
    }
}

#[test]
fn zones_that_failed_refuse() {
    let mut drive = managed();
    assert_eq!(write(&mut drive, 3, 0, 8), Ok(()));
    drive.set_access(3, ZoneAccess::ReadOnly);
    drive.set_access(4, ZoneAccess::Offline);
    drive.set_access(0, ZoneAccess::ReadOnly);
    for (zone, failure) in [(3, Failure::ZoneReadOnly), (4, Failure::ZoneOffline)] {
        for op in [
            Op::Zone(ZoneAction::Open),
            Op::Zone(ZoneAction::Close),
            Op::Zone(ZoneAction::Finish),
            Op::Zone(ZoneAction::Reset),
        ] {
            assert_eq!(act(&mut drive, op, zone), Err(failure), "{op}");
        }
        assert_eq!(write(&mut drive, zone, 8, 8), Err(failure));
        assert_eq!(append(&mut drive, zone, 8), Outcome::Failed(failure));
        assert_eq!(drive.descriptor(zone).write_pointer, None);
    }
    assert_eq!(write(&mut drive, 0, 0, 8), Err(Failure::ZoneReadOnly));
    assert_eq!(run(&mut drive, Op::Read, 0, 8), Ok(()));
    assert_eq!(run(&mut drive, Op::Read, at(3), 8), Ok(()));
    assert_eq!(run(&mut drive, Op::Read, at(4), 8), Err(Failure::ZoneOffline));
    assert_eq!(act_on_all(&mut drive, Op::Zone(ZoneAction::Reset)), Ok(()));
    assert_eq!(condition(&drive, 3), ZoneCondition::ReadOnly, "an action on all leaves them alone");
    drive.set_access(3, ZoneAccess::Writable);
    assert_eq!((condition(&drive, 3), pointer(&drive, 3)), (ZoneCondition::Closed, Some(8)));
}

#[test]
fn the_drive_closes_the_implicitly_open_zone_that_was_written_least_recently() {
    let mut drive = limited(2, None);
    assert_eq!(write(&mut drive, 2, 0, 8), Ok(()));
    assert_eq!(write(&mut drive, 3, 0, 8), Ok(()));
    assert_eq!(write(&mut drive, 2, 8, 8), Ok(()));
    assert_eq!(write(&mut drive, 4, 0, 8), Ok(()));
    let conditions = [2, 3, 4].map(|zone| condition(&drive, zone));
    let (open, closed) = (ZoneCondition::ImplicitOpen, ZoneCondition::Closed);
    assert_eq!(conditions, [open, closed, open]);
}

#[test]
fn explicitly_open_zones_stay_open_and_use_up_the_limit() {
    let mut drive = limited(2, None);
    assert_eq!(act(&mut drive, Op::Zone(ZoneAction::Open), 2), Ok(()));
    assert_eq!(write(&mut drive, 3, 0, 8), Ok(()));
    assert_eq!(
        act(&mut drive, Op::Zone(ZoneAction::Open), 4),
        Ok(()),
        "the drive closes the zone that a write opened"
    );
    assert_eq!(condition(&drive, 3), ZoneCondition::Closed);
    assert_eq!(act(&mut drive, Op::Zone(ZoneAction::Open), 5), NO_RESOURCES);
    assert_eq!(write(&mut drive, 3, 8, 8), NO_RESOURCES);
    assert_eq!(append(&mut drive, 5, 8), Outcome::Failed(Failure::InsufficientZoneResources));
    assert_eq!(act(&mut drive, Op::Zone(ZoneAction::Finish), 3), NO_RESOURCES, "a closed zone");
    assert_eq!(act(&mut drive, Op::Zone(ZoneAction::Finish), 5), NO_RESOURCES, "an empty zone");
    assert_eq!(act(&mut drive, Op::Zone(ZoneAction::Finish), 4), Ok(()), "an open zone");
    assert_eq!(write(&mut drive, 3, 8, 8), Ok(()));
}

#[test]
fn active_zones_are_limited_too() {
    let mut drive = limited(1, Some(2));
    assert_eq!(write(&mut drive, 2, 0, 8), Ok(()));
    assert_eq!(write(&mut drive, 3, 0, 8), Ok(()));
    assert_eq!(write(&mut drive, 4, 0, 8), NO_RESOURCES);
    assert_eq!(act(&mut drive, Op::Zone(ZoneAction::Open), 4), NO_RESOURCES);
    assert_eq!(write(&mut drive, 2, 8, 8), Ok(()), "a closed zone is active already");
    assert_eq!(act(&mut drive, Op::Zone(ZoneAction::Finish), 4), Ok(()), "a finished zone is not active");
    assert_eq!(act(&mut drive, Op::Zone(ZoneAction::Reset), 3), Ok(()));
    assert_eq!(write(&mut drive, 5, 0, 8), Ok(()));
}

#[test]
fn actions_on_all_zones_take_those_that_they_are_for() {
    let mut drive = limited(2, None);
    for zone in [2, 3, 4] {
        assert_eq!(write(&mut drive, zone, 0, 8), Ok(()));
    }
    assert_eq!(act_on_all(&mut drive, Op::Zone(ZoneAction::Close)), Ok(()));
    assert_eq!(drive.counts().of(ZoneCondition::Closed), 3);
    assert_eq!(act_on_all(&mut drive, Op::Zone(ZoneAction::Open)), NO_RESOURCES);
    assert_eq!(act(&mut drive, Op::Zone(ZoneAction::Reset), 2), Ok(()));
    assert_eq!(write(&mut drive, 5, 0, 8), Ok(()));
    assert_eq!(act_on_all(&mut drive, Op::Zone(ZoneAction::Open)), Ok(()));
    let open = [3, 4].map(|zone| condition(&drive, zone));
    assert_eq!(open, [ZoneCondition::ExplicitOpen; 2]);
    assert_eq!(condition(&drive, 5), ZoneCondition::Closed, "was open when the command came");
    assert_eq!(
        act_on_all(&mut drive, Op::Zone(ZoneAction::Finish)),
        Ok(()),
        "the open ones make space for the closed one"
    );
    let counts = drive.counts();
    assert_eq!((counts.of(ZoneCondition::Full), counts.of(ZoneCondition::Empty)), (3, 5), "empty ones stay");
    assert_eq!(act_on_all(&mut drive, Op::Zone(ZoneAction::Reset)), Ok(()));
    assert_eq!(drive.counts(), managed().counts());
}

#[test]
fn restricted_reads_end_at_the_write_pointer_and_in_the_zone() {
    let mut drive = managed();
    assert_eq!(write(&mut drive, 3, 0, 8), Ok(()));
    assert_eq!(run(&mut drive, Op::Read, at(3), 8), Ok(()));
    assert_eq!(run(&mut drive, Op::Read, at(3), 9), Err(Failure::ReadInvalidData));
    assert_eq!(run(&mut drive, Op::Read, at(2), 8), Err(Failure::ReadInvalidData), "an empty zone");
    assert_eq!(run(&mut drive, Op::Read, at(3), ZONE + 1), Err(Failure::ReadBoundary));
    assert_eq!(run(&mut drive, Op::Read, at(1) + 60, 8), Err(Failure::ReadInvalidData), "zones of two types");
    assert_eq!(run(&mut drive, Op::Read, 60, 8), Ok(()), "conventional zones");
}

#[test]
fn unrestricted_reads_give_zeros_for_what_was_not_written() {
    let mut layout = layout(ZoneModel::HostManaged);
    layout.unrestricted_reads = true;
    let mut drive = built(layout);
    assert_eq!(write(&mut drive, 3, 0, 8), Ok(()));
    assert_eq!(run(&mut drive, Op::Read, at(1) + 60, 8), Err(Failure::ReadInvalidData), "zones of two types");
    let (plan, outcome) = plan_of(&mut drive, Op::Read, at(3), ZONE + 8);
    assert_eq!(outcome, Outcome::Done);
    let fill = |start, len| Step::Fill {
        command: CommandId(1),
        extent: LbaExtent::new(Lba(start), Sectors(len)),
        pattern: 0,
    };
    assert_eq!(plan.steps()[1..], [fill(at(3) + 8, ZONE - 8), fill(at(4), 8), Step::done(CommandId(1))]);
}

#[test]
fn a_host_aware_drive_takes_writes_and_reads_anywhere() {
    let mut drive = aware();
    assert_eq!(write(&mut drive, 1, 60, 8), Ok(()), "across types");
    assert_eq!((condition(&drive, 2), pointer(&drive, 2)), (ZoneCondition::ImplicitOpen, Some(4)));
    assert!(!drive.descriptor(2).non_sequential, "at its write pointer");
    assert_eq!(write(&mut drive, 4, 40, 32), Ok(()), "across zones, and beyond the write pointer");
    assert_eq!(pointer(&drive, 4), Some(ZONE));
    assert_eq!(condition(&drive, 4), ZoneCondition::Full);
    assert!(drive.descriptor(4).non_sequential && !drive.descriptor(5).non_sequential);
    assert_eq!(write(&mut drive, 5, 0, 8), Ok(()), "below");
    assert_eq!((pointer(&drive, 5), drive.descriptor(5).non_sequential), (Some(8), true));
    assert_eq!(drive.counts().non_sequential, 2);
    assert_eq!(run(&mut drive, Op::Read, 0, SECTORS), Ok(()));
    assert_eq!(act(&mut drive, Op::Zone(ZoneAction::Reset), 4), Ok(()));
    assert_eq!(drive.counts().non_sequential, 1, "a reset ends it");
    drive.set_access(7, ZoneAccess::Offline);
    assert_eq!(write(&mut drive, 6, 60, 8), Err(Failure::ZoneOffline));
}

#[test]
fn a_host_aware_drive_goes_beyond_the_open_zones_that_it_recommends() {
    let mut layout = layout(ZoneModel::HostAware);
    layout.max_open = Some(1);
    let mut drive = built(layout);
    assert_eq!(write(&mut drive, 2, 0, 8), Ok(()));
    assert_eq!(write(&mut drive, 3, 0, 8), Ok(()));
    assert_eq!(condition(&drive, 2), ZoneCondition::Closed, "the drive closes one");
    assert_eq!(act(&mut drive, Op::Zone(ZoneAction::Open), 3), Ok(()));
    assert_eq!(write(&mut drive, 4, 0, 8), Ok(()));
    assert_eq!(condition(&drive, 3), ZoneCondition::ExplicitOpen, "but not one that the host opened");
}

#[test]
fn an_admitted_write_moves_the_write_pointer_before_its_data_is_placed() {
    let mut drive = managed();
    let first = Command::new(CommandId(1), Op::Write, LbaExtent::new(Lba(at(3)), Sectors(8)));
    let second = Command::new(CommandId(2), Op::Write, LbaExtent::new(Lba(at(3) + 8), Sectors(8)));
    assert_eq!(drive.admit(&second), Err(Failure::UnalignedWrite));
    assert_eq!((drive.admit(&first), drive.admit(&second)), (Ok(()), Ok(())));
    assert_eq!((pointer(&drive, 3), drive.record(3).written), (Some(16), Sectors(0)));
    let mut plan = Plan::default();
    drive.destage(Queue { waiting: &[first], next: 0 }, &mut std::iter::once(first), &mut plan);
    assert_eq!((pointer(&drive, 3), drive.record(3).written), (Some(16), Sectors(8)));
    assert_eq!(plan.completions().collect::<Vec<_>>(), [(CommandId(1), Outcome::Done)]);
}

/// The writes that have sectors in the zone of the one at index `next`.
pub(super) fn of_zone(layout: &ZoneLayout, waiting: &[Command], next: usize) -> Vec<Command> {
    let zone = layout.extent_of(layout.zone_of(waiting[next].extent.start));
    waiting.iter().filter(|write| write.extent.overlaps(zone)).copied().collect()
}

/// What the drive takes from its volatile cache with the write at index `next` of these: their indices, and the writes to
/// the platters.
fn destaged(waiting: &[(u64, u64)], next: usize) -> (Vec<u32>, Vec<(u64, u64)>) {
    let waiting: Vec<_> = (0..)
        .zip(waiting)
        .map(|(id, &(start, len))| {
            Command::new(CommandId(id), Op::Write, LbaExtent::new(Lba(start), Sectors(len)))
        })
        .collect();
    let mut plan = Plan::default();
    let mut drive = managed();
    let of_zone = of_zone(drive.table.layout(), &waiting, next);
    drive.destage(Queue { waiting: &waiting, next }, &mut of_zone.into_iter(), &mut plan);
    let writes = plan.steps().iter().filter_map(|step| match step {
        Step::Access { direction: Direction::Write, extent, .. } => {
            Some((extent.start.get(), extent.len.get()))
        }
        _ => None,
    });
    (plan.completions().map(|(id, _)| id.0).collect(), writes.collect())
}

#[test]
fn writes_that_continue_each_other_in_a_conventional_zone_leave_the_cache_in_one_access() {
    let streams = [(0, 8), (64, 8), (8, 8), (72, 8), (16, 8)];
    assert_eq!(destaged(&streams, 0), (vec![0, 2, 4], vec![(0, 24)]));
    assert_eq!(
        destaged(&streams, 2),
        (vec![2, 4], vec![(8, 16)]),
        "an older one stays, as it overlaps neither"
    );
    assert_eq!(destaged(&[(8, 4), (0, 8), (8, 8)], 1), (vec![1], vec![(0, 8)]), "behind an older write");
    assert_eq!(
        destaged(&[(0, 8), (4, 8), (8, 8)], 0),
        (vec![0], vec![(0, 8)]),
        "behind one that does not continue it"
    );
    assert_eq!(destaged(&[(56, 8), (64, 8)], 0), (vec![0], vec![(56, 8)]), "in the next zone");
    assert_eq!(destaged(&[(48, 8), (56, 16)], 0), (vec![0], vec![(48, 8)]), "across zones");
}

#[test]
fn a_record_brings_a_zone_back_and_open_zones_come_back_closed() {
    let mut drive = managed();
    assert_eq!(write(&mut drive, 3, 0, 8), Ok(()));
    assert_eq!(act(&mut drive, Op::Zone(ZoneAction::Open), 4), Ok(()));
    assert_eq!(act(&mut drive, Op::Zone(ZoneAction::Finish), 5), Ok(()));
    drive.set_access(6, ZoneAccess::ReadOnly);
    let mut changed = Vec::new();
    drive.take_changed(&mut |record| changed.push(record));
    assert_eq!(changed.iter().map(|record| record.zone).collect::<Vec<_>>(), [3, 5, 6], "4 has no data");
    drive.take_changed(&mut |record| panic!("{record:?} was taken"));
    let mut again = managed();
    assert!(changed.iter().all(|record| again.restore_zone(*record)));
    let conditions = [3, 4, 5, 6].map(|zone| condition(&again, zone));
    use ZoneCondition::{Closed, Empty, Full, ReadOnly};
    assert_eq!(conditions, [Closed, Empty, Full, ReadOnly]);
    assert_eq!(pointer(&again, 3), Some(8));
    let beyond = ZoneRecord { written: Sectors(ZONE + 1), ..ZoneRecord::empty(3) };
    assert!(!again.restore_zone(beyond) && !again.restore_zone(ZoneRecord::empty(ZONES)));
    assert!(!again.restore_zone(ZoneRecord { written: Sectors(8), ..ZoneRecord::empty(0) }), "conventional");
}

#[test]
fn a_zone_that_failed_stays_so_when_it_is_cleaned() {
    use ZoneCondition::{Closed, Full, Offline, ReadOnly};
    for (end, access, expected) in [
        (ZONE, ZoneAccess::ReadOnly, ReadOnly),
        (ZONE, ZoneAccess::Offline, Offline),
        (ZONE, ZoneAccess::Writable, Full),
        (ZONE / 2, ZoneAccess::Writable, Closed),
    ] {
        let mut drive = aware();
        assert_eq!(write(&mut drive, 3, 0, 8), Ok(()));
        assert_eq!(act(&mut drive, Op::Zone(ZoneAction::Close), 3), Ok(()));
        drive.set_access(3, access);
        drive.table.cleaned(3, Sectors(end));
        assert_eq!(condition(&drive, 3), expected, "{access:?}, cleaned to {end}");
    }
}

#[test]
fn reports_list_what_the_filter_asks_for() {
    let mut drive = aware();
    assert_eq!(write(&mut drive, 3, 8, 8), Ok(()));
    assert_eq!(act(&mut drive, Op::Zone(ZoneAction::Open), 4), Ok(()));
    assert_eq!(write(&mut drive, 5, 0, 8), Ok(()));
    assert_eq!(act(&mut drive, Op::Zone(ZoneAction::Close), 5), Ok(()));
    assert_eq!(act(&mut drive, Op::Zone(ZoneAction::Finish), 6), Ok(()));
    drive.set_access(7, ZoneAccess::ReadOnly);
    drive.set_access(8, ZoneAccess::Offline);
    drive.recommend_reset(6, true);
    for (filter, expected) in [
        (ZoneFilter::All, &[0, 1, 2, 3, 4, 5, 6, 7, 8, 9][..]),
        (ZoneFilter::Empty, &[2, 9]),
        (ZoneFilter::ImplicitOpen, &[3]),
        (ZoneFilter::ExplicitOpen, &[4]),
        (ZoneFilter::Closed, &[5]),
        (ZoneFilter::Full, &[6]),
        (ZoneFilter::ReadOnly, &[7]),
        (ZoneFilter::Offline, &[8]),
        (ZoneFilter::ResetRecommended, &[6]),
        (ZoneFilter::NonSequential, &[3]),
        (ZoneFilter::NotWritePointer, &[0, 1]),
    ] {
        let mut listed = Vec::new();
        assert_eq!(drive.report(Lba(0), filter, usize::MAX, &mut listed), Ok(()));
        let listed: Vec<u64> = listed.iter().map(|zone| zone.start.get() / ZONE).collect();
        assert_eq!(listed, expected, "{filter:?}");
        assert_eq!(ZoneFilter::from_code(filter as u8), Some(filter));
    }
    assert_eq!(ZoneFilter::from_code(8), None, "reserved");
    let mut two = Vec::new();
    assert_eq!(drive.report(Lba(at(3) + 5), ZoneFilter::All, 2, &mut two), Ok(()));
    assert_eq!(two.iter().map(|zone| zone.start).collect::<Vec<_>>(), [Lba(at(3)), Lba(at(4))]);
    assert_eq!(drive.report(Lba(SECTORS), ZoneFilter::All, 1, &mut two), INVALID);
}

#[test]
fn writes_to_one_zone_are_ordered_and_appends_are_not() {
    let layout = layout(ZoneModel::HostManaged);
    let command = |op, start, len| Command::new(CommandId(0), op, LbaExtent::new(Lba(start), Sectors(len)));
    let ordered = |one: (Op, u64), other: (Op, u64)| {
        Order::of(Some(&layout), &command(one.0, one.1, 8)).matters_to(&command(other.0, other.1, 8))
    };
    assert!(ordered((Op::Write, at(3)), (Op::Write, at(3) + 56)));
    assert!(ordered((Op::Append, at(3)), (Op::Write, at(3) + 56)));
    assert!(ordered((Op::WriteZeroes, at(3)), (Op::Write, at(3) + 56)));
    assert!(ordered((Op::Write, at(3) + 56), (Op::WriteZeroes, at(3))));
    assert!(!ordered((Op::Append, at(3)), (Op::Append, at(3))));
    assert!(!ordered((Op::Write, at(3)), (Op::Write, at(4))));
    assert!(!ordered((Op::Write, at(3)), (Op::Read, at(3) + 56)));
    assert!(!ordered((Op::Write, 0), (Op::Write, 8)), "a conventional zone");
    assert!(ordered((Op::Write, at(3)), (Op::Read, at(3) + 4)), "they share sectors");
    assert!(!Order::of(None, &command(Op::Write, at(3), 8)).matters_to(&command(Op::Write, at(3) + 56, 8)));
    let across = LbaExtent::new(Lba(at(1) + 60), Sectors(4 + ZONE));
    assert_eq!(layout.touched(&command(Op::Write, at(1) + 60, 8)), across);
}
