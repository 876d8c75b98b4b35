//! What a diagnostic means for the status of a pipeline: which pipeline, and the reason of its condition
//! `ConfigurationGenerated`.

use std::fmt;

use weir_plan::Signal;

/// A pipeline by its kind and its name.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct PipelineRef {
    /// What it takes; the kind of its resource follows from that.
    pub signal: Signal,
    /// `metadata.name`
    pub name: String,
}

impl PipelineRef {
    /// `TracePipeline`, `MetricPipeline` or `LogPipeline`.
    pub fn kind(&self) -> &'static str {
        match self.signal {
            Signal::Traces => "TracePipeline",
            Signal::Metrics => "MetricPipeline",
            Signal::Logs => "LogPipeline",
        }
    }
}

impl fmt::Display for PipelineRef {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {}", self.kind(), self.name)
    }
}

/// Why a pipeline cannot run as it is written, or soon cannot: the published names of the pipeline API.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Reason {
    /// The address of the backend.
    EndpointInvalid,
    /// A Secret, or a key in it.
    ReferencedSecretMissing,
    /// A certificate, a key, or the two together.
    TlsConfigurationInvalid,
    /// A certificate that is no longer valid.
    TlsCertificateExpired,
    /// A certificate that is valid for two weeks at most; the pipeline runs.
    TlsCertificateAboutToExpire,
    /// A statement or a condition in OTTL.
    OttlSpecInvalid,
    /// A name in `additionalMetrics`.
    RuntimeAdditionalMetricInvalid,
}

impl Reason {
    /// The name as it stands in a condition.
    pub fn name(self) -> &'static str {
        match self {
            Self::EndpointInvalid => "EndpointInvalid",
            Self::ReferencedSecretMissing => "ReferencedSecretMissing",
            Self::TlsConfigurationInvalid => "TLSConfigurationInvalid",
            Self::TlsCertificateExpired => "TLSCertificateExpired",
            Self::TlsCertificateAboutToExpire => "TLSCertificateAboutToExpire",
            Self::OttlSpecInvalid => "OTTLSpecInvalid",
            Self::RuntimeAdditionalMetricInvalid => "RuntimeAdditionalMetricInvalid",
        }
    }
}
