//! Where the members of a message stand. It knows strings and nesting, and looks at the outermost object alone.

use std::ops::Range;

use memchr::memchr2;

/// A member: where its key stands, without the quotes, and its value.
#[derive(Clone, Debug, Eq, PartialEq)]
pub(super) struct Member {
    pub(super) key: Range<usize>,
    pub(super) value: Range<usize>,
}

/// The members that JSON-RPC 1.0 knows (RFC 7047 section 4).
#[derive(Debug, Default, Eq, PartialEq)]
pub(super) struct Members {
    pub(super) id: Option<Member>,
    pub(super) method: Option<Member>,
    pub(super) params: Option<Member>,
    pub(super) result: Option<Member>,
    pub(super) error: Option<Member>,
}

/// Something else stands where the outermost object must go on, so many bytes into the message.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(super) struct Misplaced(pub(super) usize);

impl Members {
    /// Finds the members of an object. What is inside of their values is for a parser to judge.
    pub(super) fn find(message: &[u8]) -> Result<Self, Misplaced> {
        let mut members = Self::default();
        let mut cursor = Cursor {
            whole: message.len(),
            rest: message,
        };
        cursor.expect(b'{')?;
        if cursor.skip(b'}') {
            return cursor.end().map(|()| members);
        }
        loop {
            cursor.expect(b'"')?;
            let start = cursor.at();
            let key = cursor.string()?;
            let place = match key {
                b"id" => Some(&mut members.id),
                b"method" => Some(&mut members.method),
                b"params" => Some(&mut members.params),
                b"result" => Some(&mut members.result),
                b"error" => Some(&mut members.error),
                _ => None,
            };
            let key = start..start.saturating_add(key.len());
            cursor.expect(b':')?;
            let value = cursor.value()?;
            if let Some(place) = place
                && place.replace(Member { key, value }).is_some()
            {
                return Err(Misplaced(start));
            }
            if !cursor.skip(b',') {
                cursor.expect(b'}')?;
                return cursor.end().map(|()| members);
            }
        }
    }
}

struct Cursor<'a> {
    whole: usize,
    rest: &'a [u8],
}

impl<'a> Cursor<'a> {
    fn at(&self) -> usize {
        self.whole.saturating_sub(self.rest.len())
    }

    fn misplaced<T>(&self) -> Result<T, Misplaced> {
        Err(Misplaced(self.at()))
    }

    /// Takes so many bytes.
    fn take(&mut self, length: usize) -> Result<&'a [u8], Misplaced> {
        match self.rest.split_at_checked(length) {
            Some((taken, rest)) => {
                self.rest = rest;
                Ok(taken)
            }
            None => self.misplaced(),
        }
    }

    fn skip_space(&mut self) {
        self.rest = self.rest.trim_ascii_start();
    }

    /// Takes this byte, and the space before it, if it is the next one.
    fn skip(&mut self, byte: u8) -> bool {
        self.skip_space();
        match self.rest.split_first() {
            Some((first, rest)) if *first == byte => {
                self.rest = rest;
                true
            }
            _ => false,
        }
    }

    fn expect(&mut self, byte: u8) -> Result<(), Misplaced> {
        if self.skip(byte) {
            Ok(())
        } else {
            self.misplaced()
        }
    }

    fn end(&mut self) -> Result<(), Misplaced> {
        self.skip_space();
        if self.rest.is_empty() {
            Ok(())
        } else {
            self.misplaced()
        }
    }

    /// The rest of a string, behind which its quote is taken, too.
    fn string(&mut self) -> Result<&'a [u8], Misplaced> {
        let start = self.rest;
        loop {
            let Some(found) = memchr2(b'"', b'\\', self.rest) else {
                return self.misplaced();
            };
            let is_quote = self.rest.get(found) == Some(&b'"');
            // What is escaped is one byte, or goes on with letters and digits.
            self.take(found.saturating_add(if is_quote { 1 } else { 2 }))?;
            if is_quote {
                let length = start.len().saturating_sub(self.rest.len() + 1);
                return Ok(start.get(..length).unwrap_or_default());
            }
        }
    }

    fn value(&mut self) -> Result<Range<usize>, Misplaced> {
        self.skip_space();
        let start = self.at();
        match self.rest.first() {
            Some(b'"') => {
                self.take(1)?;
                self.string()?;
            }
            Some(b'{' | b'[') => self.nested()?,
            _ => {
                let is_end = |byte: &u8| {
                    byte.is_ascii_whitespace() || matches!(byte, b',' | b'}' | b'"' | b':')
                };
                match self.rest.iter().position(is_end) {
                    Some(length) if length > 0 => drop(self.take(length)?),
                    _ => return self.misplaced(),
                }
            }
        }
        Ok(start..self.at())
    }

    /// An array or an object, to its end.
    fn nested(&mut self) -> Result<(), Misplaced> {
        let mut depth = 0_usize;
        loop {
            let next = (self.rest.iter())
                .position(|byte| matches!(byte, b'"' | b'{' | b'[' | b'}' | b']'));
            let Some(next) = next else {
                return self.misplaced();
            };
            let taken = self.take(next.saturating_add(1))?;
            match taken.last() {
                Some(b'"') => drop(self.string()?),
                Some(b'{' | b'[') => depth += 1,
                _ => depth = depth.saturating_sub(1),
            }
            if depth == 0 {
                return Ok(());
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn texts(message: &str) -> Result<[Option<&str>; 5], Misplaced> {
        let members = Members::find(message.as_bytes())?;
        let Members {
            id,
            method,
            params,
            result,
            error,
        } = members;
        Ok([id, method, params, result, error]
            .map(|member| member.map(|member| &message[member.value])))
    }

    #[test]
    fn members_are_found_by_structure_and_not_by_text() {
        let message = r#" {"result" : [{"error":null,"id":1},"\"error\":null"], "x":{"error":2}, "error": null,"id":7} "#;
        let result = r#"[{"error":null,"id":1},"\"error\":null"]"#;
        assert_eq!(
            texts(message),
            Ok([Some("7"), None, None, Some(result), Some("null")])
        );
        let error = Members::find(message.as_bytes()).unwrap().error.unwrap();
        assert_eq!(&message[error.key.start - 1..=error.key.end], r#""error""#);
        assert_eq!(texts("{}"), Ok([None; 5]));
        assert_eq!(
            texts(r#"{"method":"a\\","params":[]}"#),
            Ok([None, Some(r#""a\\""#), Some("[]"), None, None])
        );
    }

    #[test]
    fn a_key_that_is_written_with_escapes_is_another_key() {
        let escaped = r#"{"\u0065rror":null,"id":1}"#;
        assert_eq!(texts(escaped), Ok([Some("1"), None, None, None, None]));
    }

    #[test]
    fn what_is_no_object_or_has_a_member_twice_is_refused_with_its_place() {
        for (message, at) in [
            ("", 0),
            ("[]", 0),
            ("{", 1),
            ("{]", 1),
            (r#"{"id":}"#, 6),
            (r#"{"id" 1}"#, 6),
            (r#"{"id":1,}"#, 8),
            (r#"{"id":1 2}"#, 8),
            (r#"{"id":[1}"#, 9),
            (r#"{"id":"x}"#, 7),
            (r#"{"id":"x\"#, 7),
            (r#"{"id":1}{}"#, 8),
            (r#"{"id":1,"id":2}"#, 9),
        ] {
            assert_eq!(texts(message), Err(Misplaced(at)), "{message}");
        }
    }
}
