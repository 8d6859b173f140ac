//! Mistakes in the tables or in what is known of a drive, one at a time: what a comparison of the two sides is worth. A
//! layer with a bug differs from the right tables as the right layer does from tables with that bug.

use skylight_layer::Failure;
use skylight_layer::capabilities::zoned::ZoneCondition as Condition;

use super::model::Shape;
use super::tables::{CONDITIONS, Effect, Tables};

/// A mistake.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Mistake {
    /// An action on a zone of a condition (row, column) has this effect.
    Action(usize, usize, Effect),
    /// An action on all zones leaves out or takes in those of a condition.
    All(usize, usize),
    /// A write to a zone of a condition has this effect.
    Write(usize, Effect),
    /// Zones of a condition fail to be read for this reason, or can be read.
    Read(usize, Option<Failure>),
    /// Zones of this condition give way.
    GivesWay(Condition),
    /// Zones of a condition do not count as open.
    NotOpen(usize),
    /// Zones of a condition do not count as active.
    NotActive(usize),
    /// A rule is reported by another name: the number of the rule.
    Rule(usize),
    /// One zone more can be open.
    OneMoreOpen,
    /// One zone less.
    OneLessOpen,
    /// One zone more can be active.
    OneMoreActive,
    /// A zone has a sector more than can be written.
    OneSectorMore,
    /// Reads are restricted though they are not.
    Restricted,
    /// One more zone is conventional.
    OneMoreConventional,
}

/// The row of zones that are opened implicitly.
const IMPLICIT_ROW: usize = 2;

/// Rules of [`super::tables::Rules`].
const RULES: usize = 8;

/// No command of a zoned drive fails with it.
const ANOTHER: Failure = Failure::Medium;

/// Effects that are not the right one.
fn wrong(right: Effect) -> Vec<Effect> {
    let to = |condition| Effect::To(condition);
    match right {
        Effect::Keep => vec![to(Condition::Closed), to(Condition::ExplicitOpen), Effect::Fails(ANOTHER)],
        Effect::To(_) => vec![Effect::Keep, Effect::Fails(ANOTHER)],
        // The limits do not count, or it does nothing.
        Effect::ToWithResources(condition) | Effect::ToThroughOpen(condition) => {
            vec![to(condition), Effect::Keep]
        }
        Effect::ToClosed => vec![to(Condition::Closed), Effect::Keep],
        Effect::Fails(_) => vec![Effect::Keep, Effect::Fails(ANOTHER)],
    }
}

/// Whether an effect on zones of a condition is another one than the right one: not if it leaves the condition, nor for a zone that
/// was opened implicitly, whose write pointer is never at its first block, if it closes it.
fn makes_a_difference(row: usize, effect: Effect) -> bool {
    effect != Effect::To(CONDITIONS[row]) && !(row == IMPLICIT_ROW && effect == Effect::To(Condition::Closed))
}

impl Mistake {
    /// One of each kind in each place.
    pub fn all() -> Vec<Self> {
        let (standard, mut all) = (Tables::standard(), Vec::new());
        for (row, &condition) in CONDITIONS.iter().enumerate() {
            for column in 0..4 {
                let right = standard.actions[row][column];
                let effects = wrong(right).into_iter().filter(|&effect| makes_a_difference(row, effect));
                all.extend(effects.map(|effect| Self::Action(row, column, effect)));
                // What an action leaves as it is, or cannot be done with, it may as well do with all.
                if !matches!(right, Effect::Fails(_) | Effect::Keep) {
                    all.push(Self::All(row, column));
                }
            }
            // Conventional zones have no write pointer to be written at.
            if row > 0 {
                let effects = wrong(standard.writes[row]).into_iter();
                let effects = effects.filter(|&effect| effect != Effect::To(condition));
                all.extend(effects.map(|effect| Self::Write(row, effect)));
            }
            all.push(Self::Read(row, standard.reads[row].is_none().then_some(ANOTHER)));
            all.extend(standard.open[row].then_some(Self::NotOpen(row)));
            all.extend(standard.active[row].then_some(Self::NotActive(row)));
        }
        all.extend((0..RULES).map(Self::Rule));
        all.extend([Condition::ExplicitOpen, Condition::Closed].map(Self::GivesWay));
        all.extend([Self::OneMoreOpen, Self::OneLessOpen, Self::OneMoreActive, Self::OneSectorMore]);
        all.extend([Self::Restricted, Self::OneMoreConventional]);
        all
    }

    /// The tables with the mistake, and what they take a drive of this shape for; none where it makes no difference.
    pub fn make(self, shape: Shape) -> Option<(Shape, Tables)> {
        let (mut believed, mut tables) = (shape, Tables::standard());
        match self {
            Self::Action(row, column, effect) => tables.actions[row][column] = effect,
            Self::All(row, column) => tables.all[row][column] ^= true,
            Self::Write(row, effect) => tables.writes[row] = effect,
            Self::Read(row, failure) => tables.reads[row] = failure,
            Self::GivesWay(condition) => tables.gives_way = condition,
            Self::NotOpen(row) => tables.open[row] = false,
            Self::NotActive(row) => tables.active[row] = false,
            Self::Rule(number) => *rule(&mut tables, number) = ANOTHER,
            Self::OneMoreOpen => believed.max_open = Some(shape.max_open? + 1),
            Self::OneLessOpen => {
                believed.max_open = Some(shape.max_open?.checked_sub(1).filter(|&most| most > 0)?)
            }
            Self::OneMoreActive => believed.max_active = Some(shape.max_active? + 1),
            Self::OneSectorMore => {
                believed.writable_sectors += 1;
                (believed.writable_sectors <= shape.zone_sectors).then_some(())?;
            }
            Self::Restricted => believed.unrestricted_reads = shape.unrestricted_reads.then_some(false)?,
            Self::OneMoreConventional => believed.conventional += 1,
        }
        Some((believed, tables))
    }
}

fn rule(tables: &mut Tables, number: usize) -> &mut Failure {
    let rules = &mut tables.rules;
    let all: [&mut Failure; RULES] = [
        &mut rules.unaligned,
        &mut rules.write_boundary,
        &mut rules.invalid_data,
        &mut rules.read_boundary,
        &mut rules.read_types,
        &mut rules.resources,
        &mut rules.zone_id,
        &mut rules.append_kind,
    ];
    all.into_iter().nth(number).expect("one of the rules")
}
