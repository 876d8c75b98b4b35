//! Round numbers for the axes of a plot, and how they are written.

/// Ticks of an axis from 0 on: at most so many steps, each of them 1, 2 or 5 times a power of ten.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Ticks {
    pub(crate) step: f64,
    pub(crate) count: u32,
}

impl Ticks {
    /// Ticks that reach `top`, in at most `most` steps.
    pub(crate) fn up_to(top: f64, most: u32) -> Self {
        let top = if top.is_finite() && top > 0.0 { top } else { 1.0 };
        let rough = top / f64::from(most.max(1));
        let power = 10_f64.powf(rough.log10().floor());
        let step =
            [1.0, 2.0, 5.0, 10.0].map(|factor| factor * power).into_iter().find(|step| *step >= rough * 0.999_999);
        Self::with_step(step.unwrap_or(10.0 * power), top)
    }

    /// Ticks of times in seconds: minutes and hours have sixty parts.
    pub(crate) fn of_time(top: f64, most: u32) -> Self {
        const STEPS: [f64; 9] = [60.0, 120.0, 300.0, 600.0, 900.0, 1800.0, 3600.0, 7200.0, 14400.0];
        if top < MINUTES_FROM {
            return Self::up_to(top, most);
        }
        let step = STEPS.into_iter().find(|step| top / step <= f64::from(most.max(1)));
        step.map_or_else(|| Self::up_to(top, most), |step| Self::with_step(step, top))
    }

    /// Where they are.
    pub(crate) fn values(self) -> impl Iterator<Item = f64> {
        (0..=self.count).map(move |index| f64::from(index) * self.step)
    }

    /// The last one.
    pub(crate) fn end(self) -> f64 {
        f64::from(self.count) * self.step
    }

    #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "a few steps, and never negative")]
    fn with_step(step: f64, top: f64) -> Self {
        Self { step, count: ((top / step) - 1e-6).ceil().max(1.0) as u32 }
    }
}

/// From here on, times are written in minutes.
const MINUTES_FROM: f64 = 300.0;

/// A number as short as a tick of an axis needs it, all of them in one unit: `1.5 M`, `20 k`, `0.25`.
pub(crate) fn short(value: f64, ticks: Ticks) -> String {
    let (divisor, unit) = match ticks.end() {
        large if large >= 1e9 => (1e9, " G"),
        large if large >= 1e6 => (1e6, " M"),
        large if large >= 10_000.0 => (1e3, " k"),
        _ => (1.0, ""),
    };
    if value == 0.0 {
        return "0".to_owned();
    }
    let digits = decimals(ticks.step / divisor);
    format!("{:.digits$}{unit}", value / divisor)
}

/// A time in seconds on an axis of times.
pub(crate) fn time(seconds: f64, ticks: Ticks) -> String {
    let factor = if ticks.end() < MINUTES_FROM { 1.0 } else { 60.0 };
    let digits = decimals(ticks.step / factor);
    format!("{:.digits$}", seconds / factor)
}

/// The unit of [`time`].
pub(crate) fn time_unit(ticks: Ticks) -> &'static str {
    if ticks.end() < MINUTES_FROM { "s" } else { "min" }
}

/// Digits behind the point that tell multiples of `step` apart.
#[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "clamped to 0..=6 first")]
fn decimals(step: f64) -> usize {
    if step <= 0.0 { 0 } else { (-(step.log10() + 1e-9).floor()).clamp(0.0, 6.0) as usize }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ticks_are_round_and_reach_the_top() {
        for (top, step, count) in
            [(97.0, 20.0, 5), (100.0, 20.0, 5), (24_378.0, 5000.0, 5), (0.9, 0.2, 5), (0.0, 0.2, 5)]
        {
            let ticks = Ticks::up_to(top, 5);
            assert!((ticks.step - step).abs() < 1e-9 && ticks.count == count, "{top}: {ticks:?}");
            assert!(ticks.end() >= top);
        }
        assert_eq!(Ticks::up_to(f64::NAN, 5).count, 5);
    }

    #[test]
    fn longer_times_are_in_minutes() {
        let ticks = Ticks::of_time(1200.0, 6);
        assert_eq!((ticks.step, ticks.count), (300.0, 4));
        assert_eq!((time(600.0, ticks).as_str(), time_unit(ticks)), ("10", "min"));
        let ticks = Ticks::of_time(70.0, 8);
        assert_eq!((time(60.0, ticks).as_str(), time_unit(ticks)), ("60", "s"));
        assert_eq!(time(0.5, Ticks::of_time(2.0, 5)), "0.5");
    }

    #[test]
    fn numbers_are_short_and_of_one_unit() {
        let cases =
            [(1_500_000.0, 2e6), (20_000.0, 25_000.0), (5000.0, 25_000.0), (5000.0, 8000.0), (0.25, 0.25), (0.0, 2e6)];
        let texts = cases.map(|(value, top)| short(value, Ticks::up_to(top, 5)));
        assert_eq!(texts, ["1.5 M", "20 k", "5 k", "5000", "0.25", "0"]);
    }
}
