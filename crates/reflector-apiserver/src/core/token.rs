//! Continue tokens: unpadded URL-safe base64 of `{"v":"meta.k8s.io/v1","rv":N,"start":KEY}`
//! (`k8s.io/apiserver/pkg/storage/continue.go`).

use base64::{
    DecodeError, Engine as _,
    alphabet::URL_SAFE,
    engine::{DecodePaddingMode, GeneralPurpose, GeneralPurposeConfig},
};
use serde::Deserialize;
use serde_json::json;

use super::json;

const VERSION: &str = "meta.k8s.io/v1";

/// Like Go's RawURLEncoding: no padding, and leftover bits of the last character do not matter.
const BASE64: GeneralPurpose = GeneralPurpose::new(
    &URL_SAFE,
    GeneralPurposeConfig::new()
        .with_encode_padding(false)
        .with_decode_padding_mode(DecodePaddingMode::RequireNone)
        .with_decode_allow_trailing_bits(true),
);

/// Where the next page starts.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Token {
    /// The revision of the chain of pages; -1 continues at the current state.
    pub(super) revision: i64,
    /// The first possible key, relative to the prefix of the request, without a slash in front.
    pub(super) start: String,
}

#[derive(Deserialize)]
struct Wire {
    #[serde(default)]
    v: String,
    #[serde(default)]
    rv: i64,
    #[serde(default)]
    start: String,
}

impl Token {
    /// Encodes; tokens of the watch cache begin with a slash, those of etcd do not.
    pub(super) fn encode(&self, slash: bool) -> String {
        let start = if slash { format!("/{}", self.start) } else { self.start.clone() };
        let wire = json!({"v": VERSION, "rv": self.revision, "start": start});
        BASE64.encode(json::to_vec(&wire))
    }

    /// Decodes; the error is what follows "continue key is not valid: ".
    pub(super) fn decode(text: &str) -> Result<Self, String> {
        let bytes = BASE64.decode(text).map_err(|e| {
            let at = match e {
                DecodeError::InvalidByte(at, _) | DecodeError::InvalidLastSymbol(at, _) => at,
                DecodeError::InvalidLength(length) => length.saturating_sub(1),
                DecodeError::InvalidPadding => text.find('=').unwrap_or(text.len()),
            };
            format!("illegal base64 data at input byte {at}")
        })?;
        let wire: Wire = serde_json::from_slice(&bytes).map_err(|e| e.to_string())?;
        if wire.v != VERSION {
            return Err(format!("server does not recognize this encoded version {}", wire.v));
        }
        if wire.rv == 0 {
            return Err(format!("incorrect encoded start resourceVersion (version {VERSION})"));
        }
        if wire.start.is_empty() {
            return Err(format!("encoded start key empty (version {VERSION})"));
        }
        let start = wire.start.strip_prefix('/').unwrap_or(&wire.start);
        if !is_clean(start) {
            return Err(wire.start);
        }
        Ok(Self { revision: wire.rv, start: start.to_owned() })
    }
}

/// For a fuzzer.
///
/// # Panics
/// If a token that can be read is another one after it was written.
#[doc(hidden)]
pub fn check_continue_token(text: &str) {
    if let Ok(token) = Token::decode(text) {
        for slash in [false, true] {
            assert_eq!(Token::decode(&token.encode(slash)).as_ref(), Ok(&token), "with a slash: {slash}");
        }
    }
}

/// Whether Go's `path.Clean` leaves "/" + key as it is: a token cannot climb out of its prefix.
fn is_clean(key: &str) -> bool {
    key.is_empty() || !key.split('/').any(|part| matches!(part, "" | "." | ".."))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn tokens_are_those_of_the_real_server() {
        let token = Token { revision: 40_322, start: "cm-05\0".into() };
        let cached = "eyJ2IjoibWV0YS5rOHMuaW8vdjEiLCJydiI6NDAzMjIsInN0YXJ0IjoiL2NtLTA1XHUwMDAwIn0";
        assert_eq!(token.encode(true), cached);
        assert_eq!(Token::decode(cached), Ok(token));
        let etcd = Token { revision: -1, start: "ev1\0".into() };
        assert_eq!(etcd.encode(false), "eyJ2IjoibWV0YS5rOHMuaW8vdjEiLCJydiI6LTEsInN0YXJ0IjoiZXYxXHUwMDAwIn0");
    }

    #[test]
    fn broken_tokens_are_refused_with_gos_words() {
        let table = [
            ("notatoken", "illegal base64 data at input byte 8"),
            ("ab*d", "illegal base64 data at input byte 2"),
            (
                "eyJ2IjogIm1ldGEuazhzLmlvL3YxIiwgInJ2IjogMCwgInN0YXJ0IjogImNtLTA1XHUwMDAwIn0",
                "incorrect encoded start resourceVersion (version meta.k8s.io/v1)",
            ),
            (
                "eyJ2IjogIm1ldGEuazhzLmlvL3YxIiwgInJ2IjogNSwgInN0YXJ0IjogIiJ9",
                "encoded start key empty (version meta.k8s.io/v1)",
            ),
            (
                "eyJ2IjogIm1ldGEuazhzLmlvL3Y5IiwgInJ2IjogNSwgInN0YXJ0IjogIngifQ",
                "server does not recognize this encoded version meta.k8s.io/v9",
            ),
            (
                "eyJ2IjogIm1ldGEuazhzLmlvL3YxIiwgInJ2IjogNDAzMjIsICJzdGFydCI6ICIuLi8uLi9zZWNyZXRzL3gifQ",
                "../../secrets/x",
            ),
        ];
        for (token, expected) in table {
            assert_eq!(Token::decode(token).unwrap_err(), expected, "{token}");
        }
    }

    proptest! {
        #[test]
        fn what_is_encoded_is_decoded(revision in 1..i64::MAX, start in "[a-z0-9.-]{1,9}[a-z]/[a-z]{1,9}\0", slash: bool) {
            let token = Token { revision, start };
            prop_assert_eq!(Token::decode(&token.encode(slash)), Ok(token));
        }

        #[test]
        fn no_text_makes_the_decoder_panic(text in ".{0,40}") {
            let _ = Token::decode(&text);
        }
    }
}
