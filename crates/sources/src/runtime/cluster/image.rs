//! Names of images.

/// The name and the tag of an image. Without a tag and a digest, the tag is `latest`.
pub(super) fn parts(image: &str) -> (&str, &str) {
    let (name, digest) = image.split_once('@').map_or((image, None), |(name, digest)| (name, Some(digest)));
    // A registry may have a port.
    let file = name.rfind('/').map_or(0, |slash| slash + 1);
    match name[file..].find(':') {
        Some(colon) => (&name[..file + colon], &name[file + colon + 1..]),
        None if digest.is_some() || name.is_empty() => (name, ""),
        None => (name, "latest"),
    }
}

#[cfg(test)]
mod tests {
    use super::parts;

    #[test]
    fn images_have_names_and_tags() {
        for (image, wanted) in [
            ("busybox", ("busybox", "latest")),
            ("registry:5000/shop/cart", ("registry:5000/shop/cart", "latest")),
            ("registry:5000/shop/cart:1.4", ("registry:5000/shop/cart", "1.4")),
            ("cart:1.4@sha256:aa", ("cart", "1.4")),
            ("cart@sha256:aa", ("cart", "")),
            ("", ("", "")),
        ] {
            assert_eq!(parts(image), wanted, "{image}");
        }
    }
}
