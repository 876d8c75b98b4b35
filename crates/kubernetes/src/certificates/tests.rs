use super::*;

const HOUR: Duration = Duration::from_secs(60 * 60);

fn names() -> Vec<String> {
    vec!["webhook.kyma-system.svc".to_owned(), "127.0.0.1".to_owned()]
}

/// 2026-11-01.
fn start() -> SystemTime {
    UNIX_EPOCH + Duration::from_secs(1_793_491_200)
}

fn made(now: SystemTime) -> Certificates {
    renewed(None, &names(), now).unwrap().expect("there are none")
}

/// What is held a while later.
fn kept(held: &Certificates, now: SystemTime) -> Certificates {
    renewed(Some(held), &names(), now).unwrap().unwrap_or_else(|| held.clone())
}

/// Whether a client that trusts these authorities takes the server of those certificates now.
fn takes(authorities: &str, server: &Certificates, now: SystemTime) -> bool {
    let mut roots = RootCertStore::empty();
    roots.add_parsable_certificates(certificates(authorities));
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let verifier = WebPkiServerVerifier::builder_with_provider(Arc::new(roots), provider).build().unwrap();
    let leaf = &certificates(&server.server)[0];
    let now = UnixTime::since_unix_epoch(now.duration_since(UNIX_EPOCH).unwrap());
    Names::new(&names())
        .unwrap()
        .names
        .iter()
        .all(|name| verifier.verify_server_cert(leaf, &[], name, &[], now).is_ok())
}

#[test]
fn what_is_made_is_good_at_once_and_for_a_client_whose_clock_is_late() {
    let held = made(start());
    for now in [start(), start() - HOUR + Duration::from_secs(1), start() + DAY * 7 - HOUR - Duration::from_secs(1)] {
        assert!(takes(&held.authorities, &held, now), "{now:?}");
    }
    for now in [start() - HOUR * 2, start() + DAY * 7] {
        assert!(!takes(&held.authorities, &held, now), "{now:?}");
    }
    assert!(certified(&held).is_ok());
    assert_eq!(due(&held), start() - HOUR + DAY * 6);
}

#[test]
fn each_part_is_renewed_in_its_time() {
    let held = made(start());
    let second = Duration::from_secs(1);
    assert_eq!(renewed(Some(&held), &names(), start()).unwrap(), None);
    assert_eq!(renewed(Some(&held), &names(), due(&held) - second).unwrap(), None);

    let next = kept(&held, due(&held) + second);
    assert_eq!((&next.authorities, &next.authority_key), (&held.authorities, &held.authority_key));
    assert_ne!(next.server, held.server);

    // A month before the authority ends, with a server's certificate that is still good.
    let end = start() - HOUR + DAY * 365;
    let fresh = kept(&held, end - DAY * 31);
    assert_eq!(fresh.authorities, held.authorities);
    let both = kept(&fresh, end - DAY * 30);
    assert_eq!(both.server, fresh.server, "clients have yet to hear of the new authority");
    assert!(both.authorities.ends_with(&held.authorities) && both.authorities != held.authorities);
    assert_eq!(certificates(&kept(&both, end + second).authorities).len(), 1, "the old one has ended");
}

/// Replicas and API servers hear of new certificates a while later.
#[test]
fn for_two_years_every_client_knows_every_server_even_if_one_of_them_is_late() {
    let (mut now, mut held) = (start(), made(start()));
    for _ in 0..2 * 365 * 2 {
        now += HOUR * 12;
        let next = kept(&held, now);
        assert!(takes(&next.authorities, &next, now), "{now:?}");
        assert!(takes(&held.authorities, &next, now), "a client is late at {now:?}");
        assert!(takes(&next.authorities, &held, now), "a server is late at {now:?}");
        held = next;
    }
    assert!(certificates(&held.authorities).len() <= 2);
}

#[test]
fn what_cannot_be_used_is_made_anew() {
    let (good, other) = (made(start()), made(start()));
    let garbage = "-----BEGIN CERTIFICATE-----\n!\n-----END CERTIFICATE-----\n".to_owned();
    for bad in [
        Certificates { server: String::new(), ..good.clone() },
        Certificates { server: garbage.clone(), ..good.clone() },
        Certificates { server_key: other.server_key.clone(), ..good.clone() },
        Certificates { server: other.server.clone(), server_key: other.server_key.clone(), ..good.clone() },
        Certificates { authority_key: other.authority_key.clone(), ..good.clone() },
        Certificates { authority_key: garbage.clone(), ..good.clone() },
        Certificates { authorities: garbage.clone(), ..good.clone() },
        Certificates { authorities: good.server.clone(), authority_key: good.server_key.clone(), ..good.clone() },
        Certificates { authorities: String::new(), ..good.clone() },
    ] {
        let made = renewed(Some(&bad), &names(), start()).unwrap().expect("something is due");
        assert!(takes(&made.authorities, &made, start()));
        assert_eq!(renewed(Some(&made), &names(), start()).unwrap(), None);
    }
    let renamed = renewed(Some(&good), &["other.svc".to_owned()], start()).unwrap().expect("the name is another");
    assert_eq!(renamed.authorities, good.authorities);
    assert!(matches!(renewed(None, &["a b".to_owned()], start()), Err(CertificateError::Name(name)) if name == "a b"));
}

#[test]
fn keys_are_not_shown() {
    let shown = format!("{:?}", made(start()));
    assert!(!shown.contains("PRIVATE"), "{shown}");
}
