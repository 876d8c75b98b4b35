//! The ratio of two sets of runs, and how much of it may be noise.
//!
//! Figures of load tests are positive and vary by a share of themselves, so it is their logarithms that are compared: the ratio
//! is that of the geometric means, and its bounds are those of Welch's t-test at 95 %. Where there are zeros, of which there are
//! no logarithms, it is the figures themselves, and the arithmetic means.

/// A ratio, and the bounds within which the true one is.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Ratio {
    pub(crate) value: f64,
    pub(crate) low: f64,
    pub(crate) high: f64,
}

impl Ratio {
    fn exact(value: f64) -> Self {
        Self { value, low: value, high: value }
    }

    /// The same with nothing taken for noise.
    pub(crate) fn without_noise(self) -> Self {
        Self::exact(self.value)
    }
}

/// How `new` stands to `base`; both have values. Where there is only one of each, the bounds are as far away as `assumed`
/// says, a share such as 0.1; but a share of nothing is nothing.
pub(crate) fn ratio(base: &[f64], new: &[f64], assumed: f64) -> Ratio {
    if have_zeros(base, new) {
        return of_some_zeros(&Sample::of(base), &Sample::of(new));
    }
    let (base, new) = (Sample::of_logarithms(base), Sample::of_logarithms(new));
    let difference = new.mean - base.mean;
    let around = match margin(&base, &new) {
        Some(margin) => margin,
        None => assumed.ln_1p(),
    };
    Ratio { value: difference.exp(), low: (difference - around).exp(), high: (difference + around).exp() }
}

/// Nothing of nothing is no change, and something of nothing is more than any bound.
fn of_some_zeros(base: &Sample, new: &Sample) -> Ratio {
    let around = margin(base, new).unwrap_or(0.0);
    let to_base = |value: f64| match (base.mean == 0.0, value <= 0.0) {
        (true, true) => 1.0,
        (true, false) => f64::INFINITY,
        (false, _) => value.max(0.0) / base.mean,
    };
    Ratio { value: to_base(new.mean), low: to_base(new.mean - around), high: to_base(new.mean + around) }
}

fn have_zeros(base: &[f64], new: &[f64]) -> bool {
    base.iter().chain(new).any(|value| *value <= 0.0)
}

/// The middles of `base` and `new`: what their ratio is the ratio of.
pub(crate) fn centres(base: &[f64], new: &[f64]) -> [f64; 2] {
    let centre: fn(&[f64]) -> f64 = if have_zeros(base, new) { arithmetic_mean } else { geometric_mean };
    [base, new].map(centre)
}

fn arithmetic_mean(values: &[f64]) -> f64 {
    Sample::of(values).mean
}

fn geometric_mean(values: &[f64]) -> f64 {
    if let [alone] = values {
        return *alone;
    }
    Sample::of_logarithms(values).mean.exp()
}

/// Mean and variance of some values; one value alone has no variance.
struct Sample {
    count: f64,
    mean: f64,
    variance: Option<f64>,
}

impl Sample {
    #[expect(clippy::cast_precision_loss, reason = "numbers of runs are small")]
    fn of(values: &[f64]) -> Self {
        let count = values.len() as f64;
        let mean = values.iter().sum::<f64>() / count;
        let squares: f64 = values.iter().map(|value| (value - mean).powi(2)).sum();
        Self { count, mean, variance: (values.len() > 1).then(|| squares / (count - 1.0)) }
    }

    fn of_logarithms(values: &[f64]) -> Self {
        let logarithms: Vec<f64> = values.iter().map(|value| value.ln()).collect();
        Self::of(&logarithms)
    }
}

/// How far the bounds of the difference are away; none when there is one value of each. A side of one value is thought to vary
/// as the other does.
fn margin(base: &Sample, new: &Sample) -> Option<f64> {
    let of_base = base.variance.or(new.variance)? / base.count;
    let of_new = new.variance.or(base.variance)? / new.count;
    let each = [(of_base, base), (of_new, new)];
    let error = of_base + of_new;
    // Welch and Satterthwaite; those who vary not at all say nothing about how sure that is.
    let parts: f64 = each
        .iter()
        .filter(|(_, side)| side.variance.is_some())
        .map(|(part, side)| part.powi(2) / (side.count - 1.0))
        .sum();
    let freedom = if parts > 0.0 { error.powi(2) / parts } else { base.count.max(new.count) - 1.0 };
    let at_most = base.count + new.count - 2.0;
    Some(quantile(freedom.min(at_most.max(1.0))) * error.sqrt())
}

/// The 97.5 % quantile of Student's t for so many degrees of freedom.
#[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "clamped to the table first")]
fn quantile(freedom: f64) -> f64 {
    const TABLE: [f64; 30] = [
        12.706, 4.303, 3.182, 2.776, 2.571, 2.447, 2.365, 2.306, 2.262, 2.228, 2.201, 2.179, 2.160, 2.145, 2.131,
        2.120, 2.110, 2.101, 2.093, 2.086, 2.080, 2.074, 2.069, 2.064, 2.060, 2.056, 2.052, 2.048, 2.045, 2.042,
    ];
    if freedom > 30.0 {
        return 1.96 + 2.5 / freedom;
    }
    TABLE[freedom.floor().clamp(1.0, 30.0) as usize - 1]
}

#[cfg(test)]
mod tests {
    use super::*;

    fn close(a: f64, b: f64) -> bool {
        (a - b).abs() < 0.002
    }

    #[test]
    fn one_run_of_each_has_the_noise_that_is_assumed() {
        let Ratio { value, low, high } = ratio(&[100.0], &[90.0], 0.1);
        assert!(close(value, 0.9) && close(low, 0.9 / 1.1) && close(high, 0.99), "{value} {low} {high}");
    }

    #[test]
    fn several_runs_bound_the_noise_themselves() {
        // By hand: logarithms of 100, 102, 98 and of 120, 122, 118; Welch's t with 4 degrees of freedom is 2.776 (3.98 of them
        // count as 3: 3.182).
        let Ratio { value, low, high } = ratio(&[100.0, 102.0, 98.0], &[120.0, 122.0, 118.0], 0.1);
        assert!(close(value, 1.2), "{value}");
        assert!(low > 1.13 && low < 1.16 && high > 1.24 && high < 1.27, "{low} {high}");
        let noisy = ratio(&[100.0, 140.0, 70.0], &[120.0, 80.0, 150.0], 0.1);
        assert!(noisy.low < 1.0 && noisy.high > 1.0, "{noisy:?}");
    }

    #[test]
    fn a_single_run_is_thought_to_vary_as_the_others_do() {
        let alone = ratio(&[100.0, 102.0, 98.0], &[120.0], 0.5);
        assert!(alone.low > 1.05 && alone.high < 1.4, "{alone:?}");
        let steady = ratio(&[100.0, 100.0], &[100.0, 100.0], 0.1);
        assert_eq!((steady.low, steady.high), (1.0, 1.0));
    }

    #[test]
    fn nothing_is_compared_with_nothing() {
        assert_eq!(ratio(&[0.0], &[0.0], 0.1), Ratio::exact(1.0));
        assert_eq!(ratio(&[0.0, 0.0], &[3.0], 0.1).value, f64::INFINITY);
        assert_eq!(ratio(&[4.0], &[0.0], 0.1).value, 0.0);
        assert_eq!(centres(&[4.0, 9.0], &[6.0]), [6.0, 6.0]);
        assert_eq!(centres(&[4.0, 8.0], &[0.0, 6.0]), [6.0, 3.0], "both of the same kind");
    }

    #[test]
    fn repeated_runs_bound_the_noise_of_what_is_sometimes_nothing() {
        // By hand: variances of 1600 / 3 and of 1200, thus an error of 24.04, and Welch's t with 3 degrees of freedom is 3.182.
        let Ratio { value, low, high } = ratio(&[0.0, 40.0, 0.0], &[0.0, 0.0, 60.0], 0.1);
        assert!(close(value, 1.5) && close(low, 0.0) && close(high, 7.237), "{value} {low} {high}");
        let clear = ratio(&[0.0, 1.0, 0.0], &[100.0, 101.0, 99.0], 0.1);
        assert!(clear.low > 100.0 && clear.low < clear.value, "{clear:?}");
        let once = ratio(&[0.0, 0.0, 0.0], &[0.0, 0.0, 60.0], 0.1);
        assert_eq!((once.value, once.low, once.high), (f64::INFINITY, 1.0, f64::INFINITY));
        let always = ratio(&[0.0, 0.0, 0.0], &[59.0, 60.0, 61.0], 0.1);
        assert_eq!((always.value, always.low, always.high), (f64::INFINITY, f64::INFINITY, f64::INFINITY));
        let gone = ratio(&[59.0, 60.0, 61.0], &[0.0, 0.0, 0.0], 0.1);
        assert!(gone.value == 0.0 && gone.high < 0.1, "{gone:?}");
    }

    #[test]
    fn quantiles_fall_with_the_freedom() {
        let falling: Vec<f64> = [1.0, 2.0, 10.0, 30.0, 31.0, 1000.0].map(quantile).into();
        assert!(falling.windows(2).all(|pair| pair[0] > pair[1]), "{falling:?}");
    }
}
