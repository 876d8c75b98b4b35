//! What a diagnostic means for the status of a pipeline: which pipeline, and the reason of its condition
//! `ConfigurationGenerated`.

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
