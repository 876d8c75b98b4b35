//! What waits in pods, for an autoscaler that counts replicas by it: as much of the custom metrics API as it asks for.
//!
//! The API server asks whichever operator it likes, so all of them know it.

use std::collections::BTreeMap;
use std::sync::{Arc, PoisonError, RwLock};
use std::time::Duration;

use k8s_openapi::jiff::Timestamp;
use serde_json::{Value, json};
use tokio::time::Instant;

use super::names::NAME_LABEL;

/// The metric.
pub(crate) const NAME: &str = "weir_pending_bytes";

/// Where the API is.
pub(crate) const PATH: &str = "/apis/custom.metrics.k8s.io/v1beta2";
const API: &str = "custom.metrics.k8s.io/v1beta2";

/// What a pod said longer ago than this says nothing.
const FRESH: Duration = Duration::from_secs(60);

/// What a pod takes in an answer beside its name and its namespace, in bytes: as text, and while the text is made.
const TEXT_BYTES: usize = 256;
const WORK_BYTES: usize = 4096;
/// The same for an answer without pods.
const FRAME_BYTES: usize = 1024;

/// Bytes by pods, shared between whoever asks the pods and whoever answers.
#[derive(Debug, Clone, Default)]
pub struct Pending(Arc<RwLock<Said>>);

#[derive(Debug, Default)]
struct Said {
    at: Option<Instant>,
    namespace: String,
    /// By the names of pods, with their application.
    pods: BTreeMap<String, (&'static str, u64)>,
}

impl Pending {
    /// What pods of this namespace said at this time.
    pub(crate) fn set(&self, namespace: &str, pods: BTreeMap<String, (&'static str, u64)>, at: Instant) {
        let said = Said { at: Some(at), namespace: namespace.to_owned(), pods };
        *self.0.write().unwrap_or_else(PoisonError::into_inner) = said;
    }

    /// What any answer takes at most, in bytes: as text, and while the text is made.
    pub(crate) fn most_bytes(&self) -> (usize, usize) {
        let said = self.0.read().unwrap_or_else(PoisonError::into_inner);
        let names: usize = said.pods.keys().map(|name| name.len() + said.namespace.len()).sum();
        let text = FRAME_BYTES + names + said.pods.len() * TEXT_BYTES;
        (text, text + said.pods.len() * WORK_BYTES)
    }

    /// What there is at a path; nothing if it is another's. An error says what was not understood. `now`: by which what
    /// was said is fresh, and by which it is dated.
    pub(crate) fn answer(
        &self,
        path: &str,
        query: Option<&str>,
        now: (Instant, Timestamp),
    ) -> Option<Result<Value, String>> {
        let below = path.strip_prefix(PATH)?;
        if below.is_empty() || below == "/" {
            return Some(Ok(resources()));
        }
        let parts: Vec<_> = below.trim_matches('/').split('/').collect();
        let ["namespaces", namespace, "pods", pod, NAME] = parts[..] else { return None };
        Some(application(query).map(|application| self.list(namespace, &decoded(pod), application.as_deref(), now)))
    }

    fn list(&self, namespace: &str, pod: &str, application: Option<&str>, (now, date): (Instant, Timestamp)) -> Value {
        let said = self.0.read().unwrap_or_else(PoisonError::into_inner);
        let is_fresh = said.at.is_some_and(|at| now.duration_since(at) < FRESH) && said.namespace == namespace;
        let date = date.strftime("%Y-%m-%dT%H:%M:%SZ").to_string();
        let wanted = said.pods.iter().filter(|(name, (of, _))| {
            is_fresh && (pod == "*" || name.as_str() == pod) && application.is_none_or(|wanted| wanted == *of)
        });
        let items = wanted.map(|(name, (_, bytes))| {
            json!({
                "describedObject": { "kind": "Pod", "namespace": namespace, "name": name, "apiVersion": "v1" },
                "metric": { "name": NAME },
                "timestamp": date,
                "value": bytes.to_string(),
            })
        });
        json!({ "kind": "MetricValueList", "apiVersion": API, "metadata": {}, "items": items.collect::<Vec<_>>() })
    }
}

fn resources() -> Value {
    let pods = json!({
        "name": format!("pods/{NAME}"), "singularName": "", "namespaced": true, "kind": "MetricValueList", "verbs": ["get"],
    });
    json!({ "kind": "APIResourceList", "apiVersion": "v1", "groupVersion": API, "resources": [pods] })
}

/// The application that a selector of labels wants, if it wants one.
fn application(query: Option<&str>) -> Result<Option<String>, String> {
    let pairs = query.unwrap_or_default().split('&').filter_map(|pair| pair.split_once('='));
    let selector = pairs.filter(|(key, _)| *key == "labelSelector").map(|(_, value)| decoded(value)).next();
    let mut wanted = None;
    for part in selector.iter().flat_map(|selector| selector.split(',')).filter(|part| !part.is_empty()) {
        let (key, value) = part.split_once('=').unwrap_or((part, ""));
        if key != NAME_LABEL {
            return Err(format!("cannot select pods by {part:?}: only {NAME_LABEL}=NAME is known"));
        }
        wanted = Some(value.trim_start_matches('=').to_owned());
    }
    Ok(wanted)
}

/// Text of a URL without its escapes. What is no escape stays as it is.
fn decoded(text: &str) -> String {
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text.as_bytes();
    while let Some((&first, more)) = rest.split_first() {
        let escaped = more.get(..2).filter(|_| first == b'%').and_then(|digits| std::str::from_utf8(digits).ok());
        match escaped.and_then(|digits| u8::from_str_radix(digits, 16).ok()) {
            Some(byte) => {
                bytes.push(byte);
                rest = &more[2..];
            }
            None => {
                bytes.push(first);
                rest = more;
            }
        }
    }
    String::from_utf8_lossy(&bytes).into_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn now() -> (Instant, Timestamp) {
        (Instant::now(), Timestamp::UNIX_EPOCH)
    }

    fn pending() -> Pending {
        let pending = Pending::default();
        let pods = [("a-0", ("a", 7)), ("a-1", ("a", 0)), ("b-0", ("b", 5))];
        pending.set("n", pods.into_iter().map(|(pod, said)| (pod.to_owned(), said)).collect(), now().0);
        pending
    }

    fn asked(path: &str, query: &str) -> Vec<(String, String)> {
        let answer = pending().answer(&format!("{PATH}{path}"), Some(query), now()).unwrap().unwrap();
        let text = |item: &Value, path| item.pointer(path).and_then(Value::as_str).unwrap().to_owned();
        let items = answer["items"].as_array().unwrap().iter();
        items.map(|item| (text(item, "/describedObject/name"), text(item, "/value"))).collect()
    }

    #[test]
    fn an_autoscaler_is_told_of_the_pods_that_it_counts() {
        let of =
            |pods: &[(&str, &str)]| pods.iter().map(|(a, b)| ((*a).to_owned(), (*b).to_owned())).collect::<Vec<_>>();
        let all = "/namespaces/n/pods/*/weir_pending_bytes";
        assert_eq!(asked(all, ""), of(&[("a-0", "7"), ("a-1", "0"), ("b-0", "5")]));
        let selector = "labelSelector=app.kubernetes.io%2Fname%3Da";
        assert_eq!(asked(all, selector), of(&[("a-0", "7"), ("a-1", "0")]));
        assert_eq!(asked("/namespaces/n/pods/%2A/weir_pending_bytes", selector).len(), 2);
        assert_eq!(asked("/namespaces/n/pods/b-0/weir_pending_bytes", ""), of(&[("b-0", "5")]));
        assert_eq!(asked("/namespaces/other/pods/*/weir_pending_bytes", ""), of(&[]));
    }

    #[test]
    fn what_an_answer_takes_is_known_before() {
        assert!(Pending::default().most_bytes().0 >= resources().to_string().len());
        for (name, pods) in [("a", 1), ("telemetry-gateway", 1_000)] {
            let pending = Pending::default();
            let said = (0..pods).map(|number| (format!("{name}-{number}"), ("a", u64::MAX)));
            pending.set("kyma-system", said.collect(), now().0);
            let path = format!("{PATH}/namespaces/kyma-system/pods/*/{NAME}");
            let answer = pending.answer(&path, None, now()).unwrap().unwrap();
            assert_eq!(answer["items"].as_array().unwrap().len(), pods);
            let (text, most) = (answer.to_string().len(), pending.most_bytes().0);
            assert!((text..2 * text + FRAME_BYTES).contains(&most), "{text} of {most} bytes");
        }
    }

    #[test]
    fn what_was_said_long_ago_says_nothing() {
        let (pending, (at, date)) = (Pending::default(), now());
        pending.set("n", BTreeMap::from([("a-0".to_owned(), ("a", 7))]), at);
        let path = format!("{PATH}/namespaces/n/pods/*/{NAME}");
        let items = |now| pending.answer(&path, None, (now, date)).unwrap().unwrap()["items"].clone();
        let fresh = items(at + Duration::from_secs(59));
        assert_eq!((&fresh[0]["value"], &fresh[0]["timestamp"]), (&json!("7"), &json!("1970-01-01T00:00:00Z")));
        assert_eq!(items(at + FRESH), json!([]));
    }

    #[test]
    fn what_is_not_known_is_not_made_up() {
        let pending = pending();
        let other = pending.answer(&format!("{PATH}/namespaces/n/pods/*/cpu"), None, now());
        assert!(other.is_none() && pending.answer("/validate", None, now()).is_none());
        let all = format!("{PATH}/namespaces/n/pods/*/{NAME}");
        assert!(pending.answer(&all, Some("labelSelector=team%3Dblue"), now()).unwrap().is_err());
        let nothing = Pending::default().answer(&all, None, now()).unwrap().unwrap();
        assert_eq!(nothing["items"], json!([]), "nobody was asked yet");
        let found = pending.answer(PATH, None, now()).unwrap().unwrap();
        assert_eq!(found["resources"][0]["name"], "pods/weir_pending_bytes");
        assert_eq!([decoded("%2"), decoded("%zz"), decoded("a%2Fb")], ["%2", "%zz", "a/b"]);
    }
}
