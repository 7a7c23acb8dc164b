//! The values of a flight, as a reader has them and as the source expects them.

use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use treefold_mirror::fields::Value;
use treefold_mirror::{Event, Fields};

/// The last values of a flight; those that no event has set are absent.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub(super) struct Values {
    pub(super) status: Option<String>,
    pub(super) gate: Option<i64>,
    pub(super) boarded: Option<i64>,
    pub(super) expected: Option<i64>,
    pub(super) lat: Option<f64>,
    pub(super) lon: Option<f64>,
    pub(super) altitude_ft: Option<i64>,
    pub(super) speed_kt: Option<i64>,
}

/// The phase of a flight, derived from its values.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Phase {
    Boarding,
    AllBoarded,
    InFlight,
    Landed,
    Arrived,
    Unknown,
}

impl Phase {
    pub(super) fn name(self) -> &'static str {
        match self {
            Self::Boarding => "boarding",
            Self::AllBoarded => "all boarded",
            Self::InFlight => "in flight",
            Self::Landed => "landed",
            Self::Arrived => "arrived",
            Self::Unknown => "",
        }
    }
}

impl Values {
    pub(super) fn of(fields: &Fields) -> Self {
        let integer = |name| match fields.value(name) {
            Some(Value::Integer(number)) => i64::try_from(number).ok(),
            _ => None,
        };
        let float = |name| match fields.value(name) {
            Some(Value::Float(number)) => Some(number),
            Some(Value::Integer(number)) => Some(number as f64),
            _ => None,
        };
        let status = match fields.value("status") {
            Some(Value::Text(text)) => Some(text.to_owned()),
            _ => None,
        };
        Self {
            status,
            gate: integer("gate"),
            boarded: integer("boarded"),
            expected: integer("expected"),
            lat: float("lat"),
            lon: float("lon"),
            altitude_ft: integer("altitude_ft"),
            speed_kt: integer("speed_kt"),
        }
    }

    /// Sets the values that `later` has.
    pub(super) fn set(&mut self, later: Self) {
        let Self { status, gate, boarded, expected, lat, lon, altitude_ft, speed_kt } = later;
        self.status = status.or(self.status.take());
        self.gate = gate.or(self.gate);
        self.boarded = boarded.or(self.boarded);
        self.expected = expected.or(self.expected);
        self.lat = lat.or(self.lat);
        self.lon = lon.or(self.lon);
        self.altitude_ft = altitude_ft.or(self.altitude_ft);
        self.speed_kt = speed_kt.or(self.speed_kt);
    }

    pub(super) fn phase(&self) -> Phase {
        match self.status.as_deref() {
            Some("boarding") if self.boarded.is_some() && self.boarded == self.expected => Phase::AllBoarded,
            Some("boarding") => Phase::Boarding,
            Some("departed") => Phase::InFlight,
            Some("landed" | "at runway") => Phase::Landed,
            Some("at gate" | "arrived") => Phase::Arrived,
            _ if self.lat.is_some() => Phase::InFlight,
            _ => Phase::Unknown,
        }
    }

    fn place(&self) -> [Option<f64>; 4] {
        let float = |number: Option<i64>| number.map(|number| number as f64);
        [self.lat, self.lon, float(self.altitude_ft), float(self.speed_kt)]
    }
}

/// The last values of each flight that the source has generated.
#[derive(Clone, Debug, Default)]
pub(super) struct Truth(BTreeMap<String, Expected>);

/// The expected values of a flight.
#[derive(Clone, Debug, Default)]
struct Expected {
    last: Values,
    /// The last position in the air, and those on the ground behind it. The rule `landed` drops the latter; an origin
    /// that has forgotten the landing may let some of them pass.
    places: Vec<[Option<f64>; 4]>,
    is_on_ground: bool,
}

impl Truth {
    pub(super) fn apply(&mut self, event: &Event) {
        let flight = self.0.entry(event.key.to_string()).or_default();
        let values = Values::of(&event.fields);
        match &*event.kind {
            "position" => {
                if !flight.is_on_ground {
                    flight.places.clear();
                }
                flight.places.push(values.place());
            }
            "status" => match values.status.as_deref() {
                Some("landed") => flight.is_on_ground = true,
                Some("departed") => flight.is_on_ground = false,
                _ => {}
            },
            _ => {}
        }
        flight.last.set(values);
    }

    /// Flights whose values in `state` are not the last ones, or that it lacks or has too many.
    pub(super) fn differences<'a>(
        &self,
        mut state: impl FnMut(&str) -> Option<&'a Values>,
        count: usize,
    ) -> Vec<String> {
        let differs = |(key, expected): (&String, &Expected)| {
            (!state(key).is_some_and(|values| expected.is_met_by(values))).then(|| key.clone())
        };
        let mut all: Vec<String> = self.0.iter().filter_map(differs).collect();
        if count > self.0.len() {
            all.push(format!("{} further flights", count - self.0.len()));
        }
        all
    }

    pub(super) fn keys(&self) -> Vec<String> {
        self.0.keys().cloned().collect()
    }
}

impl Expected {
    fn is_met_by(&self, values: &Values) -> bool {
        let status = |values: &Values| match values.status.as_deref() {
            // The tuple rule makes one event of three.
            Some("at gate") => Some("arrived".to_owned()),
            status => status.map(str::to_owned),
        };
        let of_airline = |values: &Values| (status(values), values.gate, values.boarded, values.expected);
        let is_placed =
            self.places.contains(&values.place()) || self.places.is_empty() && values.lat.is_none();
        is_placed && of_airline(values) == of_airline(&self.last)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use treefold_flights::{Flights, Options};

    fn applied(events: &[Event]) -> BTreeMap<String, Values> {
        let mut state: BTreeMap<String, Values> = BTreeMap::new();
        for event in events {
            state.entry(event.key.to_string()).or_default().set(Values::of(&event.fields));
        }
        state
    }

    #[test]
    fn state_with_all_events_has_the_expected_values_and_one_without_the_last_has_not() {
        let options = Options { flights: 10, positions: 5, ..Options::default() };
        let events: Vec<Event> = Flights::new(options).take(1_000).map(|timed| timed.event).collect();
        let mut truth = Truth::default();
        events.iter().for_each(|event| truth.apply(event));
        let state = applied(&events);
        assert_eq!(truth.differences(|key| state.get(key), state.len()), Vec::<String>::new());
        // Without the last event from the gate, one flight has too few passengers.
        let last = events.iter().rposition(|event| &*event.kind == "gate").unwrap();
        let mut fewer = events.clone();
        let key = fewer.remove(last).key.to_string();
        let state = applied(&fewer);
        assert_eq!(truth.differences(|key| state.get(key), state.len()), [key]);
        assert_eq!(truth.differences(|_| None, 0).len(), 10);
        let too_many = truth.differences(|key| state.get(key), 12);
        assert_eq!(too_many.last().map(String::as_str), Some("2 further flights"));
    }

    #[test]
    fn all_boarded_is_derived_from_the_passengers() {
        let mut values = Values { status: Some("boarding".into()), ..Values::default() };
        assert_eq!(values.phase(), Phase::Boarding);
        (values.boarded, values.expected) = (Some(7), Some(9));
        assert_eq!(values.phase(), Phase::Boarding);
        values.boarded = Some(9);
        assert_eq!(values.phase(), Phase::AllBoarded);
        values.set(Values { status: Some("departed".into()), ..Values::default() });
        assert_eq!((values.phase(), values.boarded), (Phase::InFlight, Some(9)));
    }
}
