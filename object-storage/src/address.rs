use object_store::path::Path;
use std::fmt;
use std::str::FromStr;

const BUCKET_CHARS_MAX: usize = 63;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Service {
    S3,
    AzureBlob,
}

impl Service {
    fn scheme(self) -> &'static str {
        match self {
            Self::S3 => "s3",
            Self::AzureBlob => "az",
        }
    }
}

/// A place in object storage: a bucket or container, and the beginning of the names in it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StorageAddress {
    pub(crate) service: Service,
    pub(crate) bucket: String,
    /// Empty for the whole bucket.
    pub(crate) prefix: Path,
}

/// The reason why a string is not the address of object storage.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct MalformedAddress(String);

/// Returns true if the string begins like a URL, and thus is not a path.
pub fn is_address(text: &str) -> bool {
    text.split_once("://").is_some_and(|(scheme, _)| {
        !scheme.is_empty() && scheme.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"+-.".contains(&byte))
    })
}

impl FromStr for StorageAddress {
    type Err = MalformedAddress;

    fn from_str(text: &str) -> Result<Self, MalformedAddress> {
        let (scheme, rest) = text.split_once("://").unwrap_or_default();
        let service = match scheme {
            "s3" => Service::S3,
            "az" => Service::AzureBlob,
            _ => {
                let advice = "write s3://BUCKET/PREFIX, az://CONTAINER/PREFIX, or the path of a folder";
                return Err(MalformedAddress(format!("'{scheme}://' is not supported: {advice}")));
            }
        };
        let (bucket, prefix) = rest.split_once('/').unwrap_or((rest, ""));
        let is_valid = |byte: u8| match service {
            Service::S3 => byte.is_ascii_alphanumeric() || b".-_".contains(&byte),
            Service::AzureBlob => byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'-',
        };
        if bucket.is_empty() || bucket.len() > BUCKET_CHARS_MAX || !bucket.bytes().all(is_valid) {
            return Err(MalformedAddress(match service {
                Service::S3 => format!("'{bucket}' is not the name of a bucket: write s3://BUCKET/PREFIX"),
                Service::AzureBlob => format!(
                    "'{bucket}' is not the name of a container: write az://CONTAINER/PREFIX, and set \
                     AZURE_STORAGE_ACCOUNT_NAME to the name of the account"
                ),
            }));
        }
        let prefix = Path::parse(prefix)
            .ok()
            .filter(|prefix| !prefix.as_ref().contains(['?', '#']))
            .ok_or_else(|| MalformedAddress(format!("'{prefix}' cannot be the beginning of the names of objects")))?;
        Ok(Self { service, bucket: bucket.to_owned(), prefix })
    }
}

impl fmt::Display for StorageAddress {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}://{}", self.service.scheme(), self.bucket)?;
        if self.prefix.as_ref().is_empty() { Ok(()) } else { write!(f, "/{}", self.prefix) }
    }
}

impl fmt::Display for MalformedAddress {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for MalformedAddress {}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_are_parsed_and_written() {
        for (text, written) in [
            ("s3://bucket", "s3://bucket"),
            ("s3://my.bucket-1/", "s3://my.bucket-1"),
            ("s3://bucket/a/b/", "s3://bucket/a/b"),
            ("az://container/prefix", "az://container/prefix"),
        ] {
            assert_eq!(text.parse::<StorageAddress>().unwrap().to_string(), written);
        }
        for (text, told) in [
            ("s3://", "name of a bucket"),
            ("s3:///prefix", "name of a bucket"),
            ("s3://key:secret@bucket/prefix", "name of a bucket"),
            ("s3://bucket/a//b", "beginning of the names"),
            ("s3://bucket/a/../b", "beginning of the names"),
            ("s3://bucket/a?region=b", "beginning of the names"),
            ("az://account.blob.core.windows.net/container", "AZURE_STORAGE_ACCOUNT_NAME"),
            ("gs://bucket/prefix", "'gs://' is not supported"),
        ] {
            let error = text.parse::<StorageAddress>().unwrap_err().to_string();
            assert!(error.contains(told), "{text}: {error}");
        }
    }

    #[test]
    fn paths_are_not_addresses() {
        for path in ["/mnt/backup", "C:\\backups", "s3:/bucket", "./a://b", "://", "folder"] {
            assert!(!is_address(path), "{path}");
        }
        assert!(is_address("s3://bucket") && is_address("https://example.net"));
    }
}
