//! What container logs in their raw shape get: all facts about the pod, as attributes of the resource.
//!
//! Such a resource says where its records are from and nothing else, so these names are free. It is not needed often:
//! once for a request, which has many records.

use std::borrow::Cow;

use weir_otlp::build::Encoder;
use weir_otlp::common::Resource;
use weir_otlp::conventions;
use weir_otlp::splice::Edit;
use weir_plan::{Cluster, Enrichment, Pod};

use crate::attributes::{self, OF_RESOURCE, first, texts};
use crate::changes::{Changes, NoRoom};

/// Facts about the pod that wrote the lines.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Raw<'a> {
    pub(crate) pod: &'a Pod,
    pub(crate) cluster: &'a Cluster,
    pub(crate) enrichment: &'a Enrichment,
}

impl<'a> Raw<'a> {
    /// All that is known, beside what the name of the log file says.
    fn attributes(self, container: &str) -> impl Iterator<Item = (Cow<'static, str>, &'a str)> {
        let Self { pod, cluster, enrichment } = self;
        let image = pod.containers.iter().find(|(name, _)| **name == *container).map(|(_, image)| &**image);
        let one = [
            (conventions::CLUSTER_NAME, enrichment.cluster_name.as_deref()),
            (conventions::CLUSTER_UID, cluster.uid.as_deref()),
            (conventions::NODE_NAME, pod.node.as_deref()),
            (conventions::IMAGE_NAME, image),
        ];
        let one = one.into_iter().filter_map(|(key, value)| Some((key.into(), value.filter(|text| !text.is_empty())?)));
        let of = |prefix: &str, key: &str, value: &'a str| (Cow::from(format!("{prefix}{key}")), value);
        let label = move |(key, value): (&str, &'a str)| of(conventions::POD_LABEL, key, value);
        let annotation = move |key: &str, value: &'a str| of(conventions::POD_ANNOTATION, key, value);
        let named = pod.annotations.iter().map(move |(key, value)| annotation(key, value));
        let others = pod.other_annotations.iter().map(move |(key, value)| annotation(key, value.reveal()));
        one.chain(pod.labels.iter().map(label)).chain(named).chain(others)
    }
}

/// Adds what is known to a resource.
///
/// # Errors
/// When there is no room for that.
pub(crate) fn add<'a>(
    changes: &mut Changes<'a>,
    resource: Option<Resource<'a>>,
    known: &Raw<'_>,
) -> Result<(), NoRoom> {
    let Some(Resource(message)) = resource else { return Ok(()) };
    let [container] = texts(message, OF_RESOURCE, [conventions::CONTAINER_NAME]);
    let mut out = Encoder::default();
    for (key, value) in known.attributes(container) {
        if first(message, OF_RESOURCE, &key).is_some() {
            continue;
        }
        // Buffers that grow may be twice as large as what is in them.
        changes.check(2 * (out.len() + key.len() + value.len() + MOST_FRAME))?;
        attributes::write(&mut out, OF_RESOURCE, &key, value);
    }
    if out.is_empty() {
        return Ok(());
    }
    let added = out.capacity();
    changes.push(Edit::append(message, out.into_bytes()), added)
}

/// Tags and lengths of an attribute.
const MOST_FRAME: usize = 30;
