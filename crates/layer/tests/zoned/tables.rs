//! The tables of the standard for zones, as data that [`model`](super::model) follows and tests may falsify.
//!
//! Rows are conditions, columns actions. Sources: Zoned Block Commands, INCITS 536-2016 (ZBC) and its successor ZBC-2 (BSR
//! INCITS 550), clauses 4.4.3.4 (types of zones and what reads and writes they take), 4.4.3.5 (the state machine of
//! write pointer zones) and those of the commands OPEN, CLOSE and FINISH ZONE and RESET WRITE POINTER, which the Seagate SCSI
//! Commands Reference Manual (100293068, rev. J, 4.2 to 4.6) restates; the libzbc conformance tests
//! (`01_sk_ascq_check`, `02_state_machine_check`) for which of two violations is reported. Zone Append and the active limit
//! are those of the NVMe Zoned Namespace Command Set, 2.1.1.

use skylight_layer::Failure;
use skylight_layer::capabilities::zoned::ZoneCondition::{
    self as Condition, Closed, Empty, ExplicitOpen, Full, ImplicitOpen,
};
use skylight_layer::capabilities::zoned::ZoneKind;

/// An action on a zone, in the order of the columns.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Action {
    Open,
    Close,
    Finish,
    Reset,
}

/// Every condition, in the order of the rows.
pub const CONDITIONS: [Condition; 8] = [
    Condition::NotWritePointer,
    Condition::Empty,
    Condition::ImplicitOpen,
    Condition::ExplicitOpen,
    Condition::Closed,
    Condition::ReadOnly,
    Condition::Full,
    Condition::Offline,
];

/// The row of a condition.
pub fn row(condition: Condition) -> usize {
    CONDITIONS.iter().position(|&of| of == condition).expect("CONDITIONS has every condition")
}

/// What an action does to a zone.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Effect {
    /// No change, and no error.
    Keep,
    /// The zone changes its condition.
    To(Condition),
    /// The same, and it takes the resources of an open and active zone.
    ToWithResources(Condition),
    /// The same, and it needs those of an open zone to get there.
    ToThroughOpen(Condition),
    /// Closed, or empty if its write pointer is at its first block.
    ToClosed,
    /// The command fails and changes nothing.
    Fails(Failure),
}

use Effect::{Fails, Keep, To, ToClosed, ToThroughOpen, ToWithResources};

const NOT_WP: Effect = Fails(Failure::InvalidField);
const READ_ONLY: Effect = Fails(Failure::ZoneReadOnly);
const OFFLINE: Effect = Fails(Failure::ZoneOffline);

/// The tables.
#[derive(Clone, Debug, PartialEq)]
pub struct Tables {
    /// An action on one zone, by row and column.
    pub actions: [[Effect; 4]; 8],
    /// Whether an action on all zones acts on one of the row's condition.
    pub all: [[bool; 4]; 8],
    /// What a write at the write pointer of a sequential write required zone does before it moves the pointer.
    pub writes: [Effect; 8],
    /// Why a zone of the row's condition cannot be read at all.
    pub reads: [Option<Failure>; 8],
    /// The condition that gives way when the open resources are taken.
    pub gives_way: Condition,
    /// Conditions that count as open, and as active.
    pub open: [bool; 8],
    pub active: [bool; 8],
    pub rules: Rules,
}

/// Failures of commands that break a rule.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Rules {
    /// A write elsewhere than at the write pointer.
    pub unaligned: Failure,
    /// A write beyond the end of its zone, or of the capacity of it.
    pub write_boundary: Failure,
    /// A read beyond the write pointer.
    pub invalid_data: Failure,
    /// A read that reaches from one zone into the next.
    pub read_boundary: Failure,
    /// A read from a conventional zone into one of another type.
    pub read_types: Failure,
    /// No resources.
    pub resources: Failure,
    /// An action on what is not the first block of a zone.
    pub zone_id: Failure,
    /// An append to a conventional zone.
    pub append_kind: Failure,
}

impl Tables {
    /// Those of the standard.
    pub fn standard() -> Self {
        Self {
            // ZBC-2, clauses of the commands; 4.4.3.5.2 to 4.4.3.5.8 for the transitions.
            #[rustfmt::skip]
            actions: [
                // OPEN                         CLOSE      FINISH               RESET
                [NOT_WP,                        NOT_WP,    NOT_WP,              NOT_WP],    // not write pointer
                [ToWithResources(ExplicitOpen), Keep,      ToThroughOpen(Full), Keep],      // empty
                [To(ExplicitOpen),              ToClosed,  To(Full),            To(Empty)], // implicitly opened
                [Keep,                          ToClosed,  To(Full),            To(Empty)], // explicitly opened
                [ToWithResources(ExplicitOpen), Keep,      ToThroughOpen(Full), To(Empty)], // closed
                [READ_ONLY,                     READ_ONLY, READ_ONLY,           READ_ONLY], // read only
                [Keep,                          Keep,      Keep,                To(Empty)], // full
                [OFFLINE,                       OFFLINE,   OFFLINE,             OFFLINE],   // offline
            ],
            // The ALL bit of the same commands.
            all: [
                [false, false, false, false],
                [false, false, false, false],
                [false, true, true, true],
                [false, true, true, true],
                [true, false, true, true],
                [false, false, false, false],
                [false, false, false, true],
                [false, false, false, false],
            ],
            writes: [
                Keep,
                ToWithResources(ImplicitOpen),
                Keep,
                Keep,
                ToWithResources(ImplicitOpen),
                READ_ONLY,
                Fails(Failure::InvalidField),
                OFFLINE,
            ],
            reads: [None, None, None, None, None, None, None, Some(Failure::ZoneOffline)],
            gives_way: ImplicitOpen,
            open: [false, false, true, true, false, false, false, false],
            active: [false, false, true, true, true, false, false, false],
            rules: Rules {
                unaligned: Failure::UnalignedWrite,
                write_boundary: Failure::WriteBoundary,
                invalid_data: Failure::ReadInvalidData,
                read_boundary: Failure::ReadBoundary,
                read_types: Failure::ReadInvalidData,
                resources: Failure::InsufficientZoneResources,
                zone_id: Failure::InvalidField,
                append_kind: Failure::InvalidField,
            },
        }
    }
}

/// Whether blocks of a zone are written at its write pointer alone.
pub fn is_required(kind: ZoneKind) -> bool {
    kind == ZoneKind::SequentialWriteRequired
}

/// The condition after [`Effect::ToClosed`].
pub fn closed(is_at_start: bool) -> Condition {
    if is_at_start { Empty } else { Closed }
}
