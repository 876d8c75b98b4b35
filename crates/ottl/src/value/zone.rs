//! Time zones: offsets from UTC and what they are called, from the IANA database that is part of the program.

use jiff::Timestamp;
use jiff::tz::{Offset, TimeZone};

/// A time zone.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Zone(TimeZone);

impl Zone {
    pub(crate) fn utc() -> Self {
        Self(TimeZone::UTC)
    }

    /// A zone that is always so many seconds east of UTC.
    pub(crate) fn fixed(offset: i64) -> Self {
        let offset = i32::try_from(offset).ok().and_then(|offset| Offset::from_seconds(offset).ok());
        Self(TimeZone::fixed(offset.unwrap_or(Offset::UTC)))
    }

    /// The zone of a name in the database; UTC for no name.
    pub(crate) fn named(name: &str) -> Option<Self> {
        if name.is_empty() || name == "UTC" {
            return Some(Self::utc());
        }
        let zone = TimeZone::get(name).ok()?;
        // Upper and lower case are not the same, as in the file system the reference reads.
        (zone.iana_name() == Some(name)).then_some(Self(zone))
    }

    /// Seconds east of UTC at a number of seconds since the Unix epoch.
    pub(crate) fn offset_at(&self, unix: i64) -> i64 {
        self.0.to_offset(timestamp(unix)).seconds().into()
    }

    /// What the zone is called then; none when it is just an offset.
    pub(crate) fn abbreviation_at(&self, unix: i64) -> Option<String> {
        self.0.iana_name()?;
        Some(self.0.to_offset_info(timestamp(unix)).abbreviation().to_owned())
    }

    /// Whether the zone is called so then.
    pub(crate) fn is_called(&self, name: &str, unix: i64) -> bool {
        self.0.iana_name().is_some() && self.0.to_offset_info(timestamp(unix)).abbreviation() == name
    }

    /// Seconds since the Unix epoch at the moment when clocks show the local time `local`, counted as if it were UTC.
    ///
    /// Times that clocks show twice or never become what Go's `time.Date` makes of them.
    pub(crate) fn unix(&self, local: i64) -> i64 {
        match self.offset_at(local) {
            0 => local,
            offset => local - self.offset_at(local - offset),
        }
    }

    /// The offset an abbreviation stands for in this zone: the one in effect when clocks show `local`, or any.
    pub(crate) fn offset_of(&self, abbreviation: &str, local: i64) -> Option<i64> {
        let unix = self.unix(local);
        if self.is_called(abbreviation, unix) {
            return Some(self.offset_at(unix));
        }
        // Rules go on without an end; all names are in use before this.
        let end = timestamp(2_524_608_000);
        let changes = self.0.following(Timestamp::MIN).take_while(|change| change.timestamp() < end);
        let mut offsets = changes.filter(|change| change.abbreviation() == abbreviation);
        let first = offsets.next()?.offset().seconds();
        let in_effect = offsets.map(|change| i64::from(change.offset().seconds()));
        let mut in_effect = in_effect.filter(|offset| self.is_called(abbreviation, local - offset));
        Some(in_effect.next().unwrap_or(first.into()))
    }
}

/// The nearest time the database knows.
fn timestamp(unix: i64) -> Timestamp {
    let end = if unix < 0 { Timestamp::MIN } else { Timestamp::MAX };
    Timestamp::from_second(unix).unwrap_or(end)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn clocks_are_read_as_in_go() {
        let new_york = Zone::named("America/New_York").unwrap();
        // What Go's `time.Date` returns for times of 2024: winter, summer, never shown, shown twice.
        assert_eq!(new_york.unix(1_705_320_000), 1_705_338_000);
        assert_eq!(new_york.unix(1_720_008_000), 1_720_022_400);
        assert_eq!(new_york.unix(1_710_037_800), 1_710_052_200);
        assert_eq!(new_york.unix(1_730_597_400), 1_730_611_800);
        assert_eq!(new_york.offset_of("EST", 1_720_008_000), Some(-18_000));
        assert_eq!(new_york.offset_of("EDT", 1_730_597_400), Some(-14_400));
        assert_eq!(new_york.offset_of("EST", 1_730_597_400), Some(-18_000));
        assert_eq!(new_york.offset_of("CET", 1_730_597_400), None);
        assert_eq!(new_york.abbreviation_at(i64::MAX).as_deref(), Some("EST"));
        assert_eq!(Zone::fixed(3600).abbreviation_at(0), None);
        assert_eq!(Zone::named("america/new_york"), None);
        assert_eq!(Zone::named(""), Some(Zone::utc()));
    }
}
