//! The address sets in an expression, as OVN's lexer finds them (ovn-sb(5), "Expressions"; OVN `lib/lex.c`).
//!
//! A set is `$` and an identifier: a letter, `_` or `.`, then those and digits. Strings and comments contain no sets.
//! The operator before it tells whether more addresses make the expression match more packets or fewer.

use std::{iter::Peekable, str::CharIndices};

/// The effect of more addresses in a set on the matched packets.
#[derive(Clone, Copy, Debug, Eq, Hash, Ord, PartialEq, PartialOrd)]
pub enum Sense {
    /// It matches more packets: `ip4.dst == $a1`.
    More,
    /// It matches fewer: `ip4.dst != $a1`.
    Fewer,
    /// Unknown without evaluating the expression: it has a `!`, or the set is in another position.
    Unclear,
}

/// The sets of an expression with their senses, once for each occurrence. The result for an invalid expression may have
/// too many sets, but not too few.
pub fn sets(expression: &str) -> Vec<(&str, Sense)> {
    let mut lexer = Lexer {
        text: expression,
        rest: expression.char_indices().peekable(),
    };
    let (mut found, mut operator, mut negated) = (Vec::new(), None, false);
    while let Some(token) = lexer.next() {
        match token {
            Token::Set(name) => found.push((name, operator.unwrap_or(Sense::Unclear))),
            Token::Equal => operator = Some(Sense::More),
            Token::NotEqual => operator = Some(Sense::Fewer),
            // `== {$a1, $a2}` gives the same sense to each of them.
            Token::Listing => {}
            Token::Not => {
                negated = true;
                operator = None;
            }
            Token::Other => operator = None,
        }
    }
    if negated {
        for (_, sense) in &mut found {
            *sense = Sense::Unclear;
        }
    }
    found
}

/// Whether an expression names TCP, UDP or SCTP, also as `tcp.dst`: it concerns only some packets of its addresses.
pub fn names_a_transport(expression: &str) -> bool {
    let is_of_word =
        |c: char| c.is_ascii_alphanumeric() || matches!(c, '_' | '.' | '$' | '@' | '"');
    let mut words = expression.split(|c| !is_of_word(c));
    words.any(|word| matches!(word.split('.').next(), Some("tcp" | "udp" | "sctp")))
}

enum Token<'a> {
    /// `$name`.
    Set(&'a str),
    /// `==`.
    Equal,
    /// `!=`.
    NotEqual,
    /// `!`.
    Not,
    /// `{`, `,`, and other elements of a list: numbers, addresses.
    Listing,
    Other,
}

struct Lexer<'a> {
    text: &'a str,
    rest: Peekable<CharIndices<'a>>,
}

impl<'a> Lexer<'a> {
    fn next(&mut self) -> Option<Token<'a>> {
        loop {
            let (start, first) = self.rest.next()?;
            return Some(match first {
                ' ' | '\t' | '\n' | '\r' | '\x0b' | '\x0c' => continue,
                '/' if self.is_next('/') => {
                    self.skip_while(|c| c != '\n');
                    continue;
                }
                '/' if self.is_next('*') => {
                    self.comment();
                    continue;
                }
                '"' => {
                    self.string();
                    Token::Other
                }
                '$' => match self.name(start + 1) {
                    "" => Token::Other,
                    name => Token::Set(name),
                },
                '=' if self.take('=') => Token::Equal,
                '!' if self.take('=') => Token::NotEqual,
                '!' => Token::Not,
                '{' | ',' => Token::Listing,
                '0'..='9' | ':' => {
                    // Also `10.0.0.1/24` and `fe80::1`: a mask must not begin a comment.
                    self.skip_while(is_number);
                    Token::Listing
                }
                c if is_id1(c) => {
                    let mut hexadecimal = c.is_ascii_hexdigit();
                    while let Some((_, c)) = self.rest.next_if(|(_, c)| is_idn(*c)) {
                        hexadecimal &= c.is_ascii_hexdigit();
                    }
                    if hexadecimal && self.is_next(':') {
                        self.skip_while(is_number);
                        Token::Listing
                    } else {
                        Token::Other
                    }
                }
                _ => Token::Other,
            });
        }
    }

    /// The identifier that starts here; empty if there is none.
    fn name(&mut self, start: usize) -> &'a str {
        if self.rest.peek().is_none_or(|(_, c)| !is_id1(*c)) {
            return "";
        }
        self.skip_while(is_idn);
        let end = self
            .rest
            .peek()
            .map_or(self.text.len(), |(index, _)| *index);
        self.text.get(start..end).unwrap_or_default()
    }

    /// Skips the rest of a quoted string, in which a backslash escapes the next character.
    fn string(&mut self) {
        while let Some((_, c)) = self.rest.next() {
            match c {
                '"' => return,
                '\\' => drop(self.rest.next()),
                _ => {}
            }
        }
    }

    /// Skips the rest of a comment after its `/`. It must end in its line; otherwise the expression is invalid.
    fn comment(&mut self) {
        self.rest.next();
        let mut last = ' ';
        while let Some((_, c)) = self.rest.next_if(|(_, c)| *c != '\n') {
            if last == '*' && c == '/' {
                return;
            }
            last = c;
        }
    }

    fn is_next(&mut self, expected: char) -> bool {
        self.rest.peek().is_some_and(|(_, c)| *c == expected)
    }

    fn take(&mut self, expected: char) -> bool {
        self.rest.next_if(|(_, c)| *c == expected).is_some()
    }

    fn skip_while(&mut self, belongs: impl Fn(char) -> bool) {
        while self.rest.next_if(|(_, c)| belongs(*c)).is_some() {}
    }
}

fn is_id1(c: char) -> bool {
    c.is_ascii_alphabetic() || c == '_' || c == '.'
}

fn is_idn(c: char) -> bool {
    is_id1(c) || c.is_ascii_digit()
}

fn is_number(c: char) -> bool {
    c.is_ascii_alphanumeric() || matches!(c, '.' | ':' | '/')
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::{Sense::*, *};

    #[test]
    fn rules_for_ports_are_those_that_name_a_transport() {
        for (expression, expected) in [
            (
                "(ip4.dst == $a12) && inport == @a56 && ((tcp && ( tcp.dst == 443 )))",
                true,
            ),
            ("ip4.dst==$a12&&udp.dst==53", true),
            ("ip4.dst == $a12 && sctp", true),
            (
                "ip4.dst == $tcp && inport == @udp && outport == \"tcp\"",
                false,
            ),
            ("ip4.dst == $my.tcp && reg0 == 1", false),
        ] {
            assert_eq!(names_a_transport(expression), expected, "{expression}");
        }
    }

    #[test]
    fn sets_are_found_where_ovn_finds_them() {
        let dual = "(ip4.dst == $a12 || ip6.dst == $a34) && inport == @a56 && ((tcp && ( tcp.dst == 443 )))";
        for (expression, expected) in [
            (dual, &[("a12", More), ("a34", More)][..]),
            ("ip4.dst==$a12&&tcp", &[("a12", More)]),
            ("ip4.dst == $a123", &[("a123", More)]),
            ("ip4.dst == $a12-1", &[("a12", More)]),
            ("ip4.dst == $my.set_1:", &[("my.set_1", More)]),
            (
                "ip4.dst != $a1 && ip4.src == $a2",
                &[("a1", Fewer), ("a2", More)],
            ),
            (
                "ip4.src == {$a1, 10.0.0.0/8, $a2} && ip4",
                &[("a1", More), ("a2", More)],
            ),
            ("ip6.src != {fe80::1, ::2/64, $a2}", &[("a2", Fewer)]),
            ("!(ip4.dst == $a1)", &[("a1", Unclear)]),
            ("$a1 == ip4.dst", &[("a1", Unclear)]),
            ("ip4.dst == ($a1)", &[("a1", Unclear)]),
            ("ip4.dst == $a1 || ip4.src == $a1", &[("a1", More); 2]),
            // Expressions without sets.
            ("", &[]),
            ("$", &[]),
            ("$1a $-a $$", &[]),
            (r#"inport == "x$a1" && outport == "\"$a2""#, &[]),
            ("ip4 // $a1", &[]),
            ("ip4 /* $a1 */ && ip4.src == $a2", &[("a2", More)]),
            ("ip4 // $a1\n&& ip4.src == $a2", &[("a2", More)]),
            ("@a1", &[]),
            // Invalid expressions: too many sets rather than too few.
            ("ip4 /* half\n$a1", &[("a1", Unclear)]),
            ("ip4.dst == 10.0.0.0//8 $a1", &[("a1", More)]),
            ("ü$a1ü", &[("a1", Unclear)]),
        ] {
            assert_eq!(sets(expression), expected, "{expression}");
        }
    }

    proptest! {
        #[test]
        fn any_text_is_read_and_names_are_whole(text in r#"([$a1. "\\/*={},!\n]|\PC){0,40}"#) {
            for (name, _) in sets(&text) {
                prop_assert!(name.starts_with(is_id1) && name.chars().all(is_idn));
                let whole = text.match_indices(&format!("${name}")).any(|(start, found)| {
                    !text[start + found.len()..].starts_with(is_idn)
                });
                prop_assert!(whole, "{}", name);
            }
        }

        #[test]
        fn a_set_is_found_among_others(before in "[a-z0-9.]{0,5}", name in "[a-z][a-z0-9]{0,8}") {
            let text = format!("ip4.src == {{$x{before}, $y}} || ip4.dst == ${name} && $z");
            let found: Vec<_> = sets(&text).into_iter().map(|(name, _)| name).collect();
            let first = format!("x{before}");
            prop_assert_eq!(found, [first.as_str(), "y", name.as_str(), "z"]);
        }
    }
}
