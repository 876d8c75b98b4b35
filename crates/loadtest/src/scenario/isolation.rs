//! What sick neighbours cost a healthy pipeline: its figures beside them against its figures alone.
//!
//! These are goals, not promises. On a busy machine a percentile moves by more than a tenth by itself, so a missed goal
//! is reported but fails nothing.

use super::judgement::Judgement;

/// Most that rate and latency may be worse than alone.
const WORSE_AT_MOST: f64 = 1.1;
/// What a client waits for before its data is held for those who did not take it, and what holding may take: one write
/// and one flush for all who wait, behind the one under way.
const CLIENT_WAIT_MS: f64 = 250.0 + 250.0;
/// Bytes on disk for a byte accepted: one copy, whoever is owed it.
const COPIES: f64 = 1.1;

/// One line for each goal.
pub(crate) fn compare(alone: &Judgement, together: &Judgement) -> Vec<String> {
    let (a, t) = (&alone.kpis, &together.kpis);
    let copies = t.disk_mb_written * 1_048_576.0 / together.accepted_bytes.max(1.0);
    vec![
        line(
            t.exported_per_s * WORSE_AT_MOST >= a.exported_per_s,
            format!("healthy pipeline delivered {:.0} per second, alone {:.0}", t.exported_per_s, a.exported_per_s),
        ),
        line(
            within(t.latency_ms_p99, a.latency_ms_p99 * WORSE_AT_MOST),
            format!(
                "healthy pipeline delivered within {:.1} ms (p99), alone {:.1}",
                t.latency_ms_p99, a.latency_ms_p99
            ),
        ),
        // Their data has to be on disk for the sick neighbours first: that is a wait of its own, and a bounded one.
        line(
            within(t.client_ms_max, CLIENT_WAIT_MS),
            format!(
                "clients waited {:.1} ms (p99), {:.0} ms at most; alone {:.1} and {:.0}",
                t.client_ms_p99, t.client_ms_max, a.client_ms_p99, a.client_ms_max
            ),
        ),
        line(copies <= COPIES, format!("{copies:.2} bytes written to disk for each byte accepted")),
    ]
}

fn line(reached: bool, text: String) -> String {
    if reached { format!("goal reached: {text}") } else { format!("goal MISSED: {text}") }
}

/// Whether a latency is good enough; none at all is that of nothing delivered.
fn within(latency: f64, limit: f64) -> bool {
    latency > 0.0 && latency <= limit
}

#[cfg(test)]
mod tests {
    use super::super::judgement::Kpis;
    use super::*;

    fn judgement(exported_per_s: f64, p99: f64, client_max: f64, disk_mb_written: f64) -> Judgement {
        let kpis = Kpis {
            exported_per_s,
            latency_ms_p99: p99,
            client_ms_p99: p99,
            client_ms_max: client_max,
            disk_mb_written,
            ..Kpis::default()
        };
        Judgement { kpis, accepted_bytes: 100.0 * 1_048_576.0, ..Judgement::default() }
    }

    fn missed(alone: &Judgement, together: &Judgement) -> Vec<usize> {
        let lines = compare(alone, together);
        (0..lines.len()).filter(|&index| lines[index].starts_with("goal MISSED")).collect()
    }

    #[test]
    fn a_tenth_is_allowed_and_no_more() {
        let alone = judgement(1000.0, 10.0, 20.0, 0.0);
        assert_eq!(missed(&alone, &judgement(950.0, 10.9, 400.0, 105.0)), Vec::<usize>::new());
        assert_eq!(missed(&alone, &judgement(2000.0, 1.0, 1.0, 0.0)), Vec::<usize>::new());
        assert_eq!(missed(&alone, &judgement(900.0, 10.0, 20.0, 100.0)), [0]);
        assert_eq!(missed(&alone, &judgement(1000.0, 11.1, 501.0, 200.0)), [1, 2, 3]);
        assert_eq!(missed(&alone, &judgement(0.0, 0.0, 0.0, 0.0)), [0, 1, 2], "nothing delivered is not fast");
    }
}
