//! Bounds of settings: what each field of a table such as [`Limits`](crate::limits::Limits) may be.
//!
//! The macro [`bounded!`](crate::bounded) defines such a table with the range of each field beside the field, so that no
//! field is without one, and makes the list `SETTINGS`. The check of a node at its start, the units in a configuration
//! file, its JSON schema and the page about it come from this one list.
//!
//! The ranges refuse values with which a node could not work or would hold more than any machine has. A value inside its
//! range may still be a bad choice.

use crate::replica::{POLICY_NAMES, ReplicaPolicy};
use crate::time::Duration as CoreDuration;
use core::fmt;
use core::num::NonZeroUsize;
use core::time::Duration;

/// A year: longer than any wait that makes sense.
pub const YEAR: Duration = Duration::from_secs(365 * 24 * 3_600);
/// More bytes than the memory of one machine: 16 TiB.
pub const BYTES_MOST: u64 = 16 << 40;

/// The value of a setting.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Figure {
    /// A whole number, also of bytes.
    Whole(u64),
    /// A length of time.
    Time(Duration),
    /// A number with a fraction.
    Fraction(f64),
    /// On or off.
    Switch(bool),
    /// A replica policy.
    Policy(ReplicaPolicy),
}

/// The kind of a setting, and the values that it may have.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Range {
    /// A number, from the first to the second.
    Count(u64, u64),
    /// A number of bytes, from the first to the second.
    Bytes(u64, u64),
    /// A length of time, from the first to the second.
    Time(Duration, Duration),
    /// A number with a fraction, from the first to the second.
    Fraction(f64, f64),
    /// On or off.
    Switch,
    /// Any replica policy.
    Policy,
}

impl Range {
    /// True if a setting of this kind may have this value.
    pub fn holds(&self, figure: Figure) -> bool {
        match (*self, figure) {
            (Self::Count(least, most) | Self::Bytes(least, most), Figure::Whole(given)) => {
                (least..=most).contains(&given)
            }
            (Self::Time(least, most), Figure::Time(given)) => (least..=most).contains(&given),
            (Self::Fraction(least, most), Figure::Fraction(given)) => (least..=most).contains(&given),
            (Self::Switch, Figure::Switch(_)) | (Self::Policy, Figure::Policy(_)) => true,
            _ => false,
        }
    }

    /// A value with its unit, as a configuration file writes it.
    pub fn text(&self, figure: Figure) -> Text {
        match (self, figure) {
            (Self::Bytes(..), Figure::Whole(bytes)) => Text::Bytes(bytes),
            _ => Text::Plain(figure),
        }
    }
}

impl fmt::Display for Range {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (least, most) = match *self {
            Self::Count(least, most) | Self::Bytes(least, most) => {
                (Figure::Whole(least), Figure::Whole(most))
            }
            Self::Time(least, most) => (Figure::Time(least), Figure::Time(most)),
            Self::Fraction(least, most) => (Figure::Fraction(least), Figure::Fraction(most)),
            Self::Switch => return f.write_str("true or false"),
            Self::Policy => return f.write_str(POLICY_NAMES),
        };
        write!(f, "{} to {}", self.text(least), self.text(most))
    }
}

/// Writes a value with its unit: `64MiB`, `1.5s`, `0.4`, `true`.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Text {
    /// A number of bytes.
    Bytes(u64),
    /// Any other value.
    Plain(Figure),
}

impl fmt::Display for Text {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match *self {
            Self::Bytes(bytes) => {
                let units = [("TiB", 40), ("GiB", 30), ("MiB", 20), ("KiB", 10)];
                let whole = |bits: u32| bytes > 0 && bytes.trailing_zeros() >= bits;
                match units.into_iter().find(|&(_, bits)| whole(bits)) {
                    Some((unit, bits)) => write!(f, "{}{unit}", bytes >> bits),
                    None => write!(f, "{bytes}B"),
                }
            }
            Self::Plain(Figure::Whole(number)) => write!(f, "{number}"),
            Self::Plain(Figure::Time(time)) => write!(f, "{}", CoreDuration::from(time)),
            Self::Plain(Figure::Fraction(number)) => write!(f, "{number}"),
            Self::Plain(Figure::Switch(is_on)) => write!(f, "{is_on}"),
            Self::Plain(Figure::Policy(policy)) => write!(f, "{policy}"),
        }
    }
}

/// A setting whose value is outside its range.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct OutOfBounds {
    /// The table of the setting, as a configuration file names it.
    pub table: &'static str,
    /// The setting.
    pub field: &'static str,
    /// Its value.
    pub given: Figure,
    /// The values that it may have.
    pub range: Range,
}

impl fmt::Display for OutOfBounds {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { table, field, given, range } = self;
        write!(f, "{table}.{field} is {}; allowed: {range}", range.text(*given))
    }
}

impl core::error::Error for OutOfBounds {}

/// A type that a setting can have.
pub trait Field: Copy {
    /// The value as a figure.
    fn figure(self) -> Figure;
    /// The value of a figure; `None` if the type cannot have it.
    fn of(figure: Figure) -> Option<Self>;
}

/// Makes a type a field by the figure that has its value, and the conversions of the two.
macro_rules! field {
    ($type:ty, $figure:ident, $into:expr, $from:expr) => {
        impl Field for $type {
            fn figure(self) -> Figure {
                Figure::$figure($into(self))
            }

            fn of(figure: Figure) -> Option<Self> {
                let Figure::$figure(value) = figure else { return None };
                $from(value)
            }
        }
    };
}

field!(usize, Whole, |own| own as u64, |value| usize::try_from(value).ok());
field!(u32, Whole, u64::from, |value| u32::try_from(value).ok());
field!(NonZeroUsize, Whole, |own: Self| own.get() as u64, |value| Self::new(usize::try_from(value).ok()?));
field!(f64, Fraction, |own| own, Some);
field!(bool, Switch, |own| own, Some);
field!(Duration, Time, |own| own, Some);
field!(ReplicaPolicy, Policy, |own| own, Some);

/// One setting of a table `T`.
#[derive(Debug)]
pub struct Setting<T> {
    /// The name of the table in a configuration file.
    pub table: &'static str,
    /// The name of the field.
    pub name: &'static str,
    /// The lines of its doc comment.
    pub docs: &'static [&'static str],
    /// The values that it may have.
    pub range: Range,
    /// Reads its value.
    pub read: fn(&T) -> Figure,
    /// Sets its value. Returns false if the field's type cannot have it.
    pub write: fn(&mut T, Figure) -> bool,
}

impl<T> Setting<T> {
    /// The violation of its range by the value in this table, if there is one.
    pub fn violated(&self, table: &T) -> Option<OutOfBounds> {
        let given = (self.read)(table);
        (!self.range.holds(given)).then_some(self.out_of_bounds(given))
    }

    /// Sets the value in a table, if the range holds it.
    ///
    /// # Errors
    /// If the range does not hold it. Then the table is unchanged.
    pub fn set(&self, table: &mut T, figure: Figure) -> Result<(), OutOfBounds> {
        if self.range.holds(figure) && (self.write)(table, figure) {
            return Ok(());
        }
        Err(self.out_of_bounds(figure))
    }

    fn out_of_bounds(&self, given: Figure) -> OutOfBounds {
        OutOfBounds { table: self.table, field: self.name, given, range: self.range }
    }
}

/// Defines a struct of settings, with a [`Range`] for each field, and its `SETTINGS`.
///
/// Fields that are no figures, such as tables of their own, stand in `first` or `last` and have no range.
#[macro_export]
#[doc(hidden)]
macro_rules! bounded {
    (
        $(#[$outer:meta])*
        pub struct $name:ident in $table:literal {
            $(first { $($before:tt)* })?
            $(
                $(#[doc = $doc:literal])*
                $(#[cfg_attr $attribute:tt])?
                pub $field:ident: $type:ty => $range:expr,
            )*
            $(last { $($after:tt)* })?
        }
    ) => {
        $(#[$outer])*
        pub struct $name {
            $($($before)*)?
            $(
                $(#[doc = $doc])*
                $(#[cfg_attr $attribute])?
                pub $field: $type,
            )*
            $($($after)*)?
        }

        impl $name {
            /// The settings of this table with their ranges, in the order of its fields.
            pub const SETTINGS: &'static [$crate::bounds::Setting<Self>] = &[
                $($crate::bounds::Setting {
                    table: $table,
                    name: stringify!($field),
                    docs: &[$($doc),*],
                    range: $range,
                    read: |table| $crate::bounds::Field::figure(table.$field),
                    write: |table, figure| match $crate::bounds::Field::of(figure) {
                        Some(value) => {
                            table.$field = value;
                            true
                        }
                        None => false,
                    },
                },)*
            ];

            /// The settings that are outside their ranges.
            pub fn out_of_bounds(&self) -> impl Iterator<Item = $crate::bounds::OutOfBounds> + '_ {
                Self::SETTINGS.iter().filter_map(|setting| setting.violated(self))
            }
        }
    };
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::Tuning;
    use crate::limits::Limits;
    use crate::membership::MembershipConfig;
    use std::string::ToString;
    use std::vec::Vec;

    #[test]
    fn presets_are_within_their_bounds() {
        assert_eq!(Limits::DEFAULT.check(), Ok(()));
        for tuning in [Tuning::LAN, Tuning::WAN] {
            assert_eq!(tuning.check(), Ok(()));
        }
        for membership in [MembershipConfig::lan(), MembershipConfig::sim(), MembershipConfig::still()] {
            assert_eq!(Tuning { membership, ..Tuning::LAN }.check(), Ok(()));
        }
    }

    #[test]
    fn each_setting_refuses_a_value_below_and_above_its_range() {
        for setting in Limits::SETTINGS {
            let (Range::Count(least, most) | Range::Bytes(least, most)) = setting.range else { continue };
            let mut limits = Limits::DEFAULT;
            for inside in [least, most] {
                setting.set(&mut limits, Figure::Whole(inside)).unwrap();
                assert_eq!((setting.read)(&limits), Figure::Whole(inside), "{}", setting.name);
            }
            for outside in least.checked_sub(1).into_iter().chain([most + 1]) {
                let refused = setting.set(&mut limits, Figure::Whole(outside)).unwrap_err();
                assert_eq!(refused.field, setting.name);
                assert_eq!((setting.read)(&limits), Figure::Whole(most), "a refused value is not set");
            }
        }
    }

    #[test]
    fn a_violation_names_field_value_and_range() {
        let limits = Limits { payload_bytes_max: 0, deadline_max: Duration::ZERO, ..Limits::DEFAULT };
        let refused: Vec<_> = limits.out_of_bounds().map(|refused| refused.to_string()).collect();
        assert_eq!(
            refused,
            [
                "limits.payload_bytes_max is 0B; allowed: 1KiB to 4GiB",
                "limits.deadline_max is 0ns; allowed: 1ms to 31536000s"
            ]
        );
        let tuning = Tuning { patience: f64::NAN, ..Tuning::LAN };
        assert_eq!(tuning.check().unwrap_err().to_string(), "tuning.patience is NaN; allowed: 0 to 1000");
    }

    #[test]
    fn settings_that_depend_on_each_other_are_checked_together() {
        let mut tuning = Tuning::LAN;
        tuning.membership.probe_timeout = tuning.membership.probe_period / 2;
        let refused = tuning.check().unwrap_err().to_string();
        assert_eq!(refused, "tuning.membership.probe_timeout is 100ms; allowed: 1µs to 99.999999ms");
        let tuning = Tuning { patience: 0.2, ..Tuning::LAN };
        assert_eq!(tuning.check().unwrap_err().field, "patience", "a leaf is late before its sign of life");
        let never = Tuning { sign_of_life: 1.0, patience: 1.0, ..Tuning::LAN };
        assert_eq!(never.check(), Ok(()), "no node sends signs of life, and silence is never repaired");
    }

    #[test]
    fn bytes_are_written_with_the_largest_unit_that_divides_them() {
        let text = |bytes| Text::Bytes(bytes).to_string();
        let texts = [text(0), text(1_000), text(1 << 10), text(3 << 19), text(64 << 20), text(16 << 40)];
        assert_eq!(texts, ["0B", "1000B", "1KiB", "1536KiB", "64MiB", "16TiB"]);
    }
}
