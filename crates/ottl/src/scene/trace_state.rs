//! W3C trace states, as `trace.TraceState` of OpenTelemetry for Go reads and changes them.

/// The most members. Later ones make room for a new one.
const MAX_MEMBERS: usize = 32;

/// The members of a valid trace state, in order.
pub(super) struct TraceState<'s>(Vec<(&'s str, &'s str)>);

impl<'s> TraceState<'s> {
    /// None when the text is not valid as a whole.
    pub(super) fn parse(text: &'s str) -> Option<Self> {
        let mut members: Vec<(&str, &str)> = Vec::new();
        for member in text.split(',').filter(|member| !member.is_empty()) {
            let (key, value) = member.split_once('=')?;
            let (key, value) = (key.trim_start_matches([' ', '\t']), value.trim_end_matches([' ', '\t']));
            let is_known = members.iter().any(|(known, _)| *known == key);
            if is_known || members.len() == MAX_MEMBERS || !is_key(key) || !is_value(value) {
                return None;
            }
            members.push((key, value));
        }
        Some(Self(members))
    }

    /// The value of a member.
    pub(super) fn get(&self, key: &str) -> Option<&'s str> {
        self.0.iter().find(|(other, _)| *other == key).map(|(_, value)| *value)
    }

    /// The text with another member in front, in the place of one with the same key. None when the key or the value
    /// may not stand in a trace state.
    pub(super) fn with(&self, key: &str, value: &str) -> Option<String> {
        if !is_key(key) || !is_value(value) {
            return None;
        }
        let mut text = format!("{key}={value}");
        for (other, value) in self.0.iter().filter(|(other, _)| *other != key).take(MAX_MEMBERS - 1) {
            text.push_str(&format!(",{other}={value}"));
        }
        Some(text)
    }
}

/// A name, or the names of a tenant and of a system with `@` between them. The name of a tenant may start with a digit.
fn is_key(key: &str) -> bool {
    let is_name = |name: &str, most: usize| {
        let is_inside = |byte: u8| is_alphanumeric(byte) || matches!(byte, b'_' | b'-' | b'*' | b'/');
        name.len() <= most && name.bytes().all(is_inside)
    };
    let starts_with_letter = |name: &str| name.starts_with(|first: char| first.is_ascii_lowercase());
    match key.split_once('@') {
        None => starts_with_letter(key) && is_name(key, 256),
        Some((tenant, system)) => {
            let starts_well = tenant.bytes().next().is_some_and(is_alphanumeric) && starts_with_letter(system);
            starts_well && is_name(tenant, 241) && is_name(system, 14)
        }
    }
}

fn is_alphanumeric(byte: u8) -> bool {
    byte.is_ascii_lowercase() || byte.is_ascii_digit()
}

fn is_value(value: &str) -> bool {
    let is_inside = |byte: u8| matches!(byte, b' '..=b'~') && !matches!(byte, b',' | b'=');
    (1..=256).contains(&value.len()) && value.bytes().all(is_inside) && !value.ends_with(' ')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_are_those_of_the_specification() {
        for key in ["a", "a1_-*/", "1a@b", "tenant@system", &"a".repeat(256)] {
            assert!(is_key(key), "{key}");
        }
        for key in ["", "1a", "A", "a b", "a@", "@a", "a@1", "a@b@c", "\u{e9}", &"a".repeat(257), "a@b23456789012345"] {
            assert!(!is_key(key), "{key}");
        }
    }

    #[test]
    fn states_are_valid_as_a_whole() {
        let many = |count: usize| (0..count).map(|index| format!("a{index}=1")).collect::<Vec<_>>().join(",");
        for state in ["", ",", "a=1", " a=1\t,,\tb= 2 ", &many(32)] {
            assert!(TraceState::parse(state).is_some(), "{state}");
        }
        for state in ["foo", "foo,a=1", "a=1,a=2", "a=", "a=1=2", "a =1", "1a=1", " ", &many(33)] {
            assert!(TraceState::parse(state).is_none(), "{state}");
        }
        let full = many(32);
        let changed = TraceState::parse(&full).unwrap().with("new", "2").unwrap();
        assert_eq!(changed, format!("new=2,{}", many(31)));
        assert_eq!(TraceState::parse("a=1,b=2").unwrap().with("b", "3").unwrap(), "b=3,a=1");
    }
}
