//! The tokens of a Corefile as Caddy's lexer defines them (github.com/coredns/caddy,
//! caddyfile/lexer.go), with their positions.

use std::ops::Range;

/// A word.
#[derive(Clone, Debug, Eq, PartialEq)]
pub(crate) struct Token {
    /// Without quotes and escapes.
    pub(crate) text: String,
    /// The line of its first character, from 1.
    pub(crate) line: usize,
    /// Its byte range, including quotes.
    pub(crate) span: Range<usize>,
}

/// Splits at white space. A `"` at the start of a word quotes up to the next `"`; `\` escapes a `"`
/// within. A `#`, even within a word, starts a comment up to the end of the line.
pub(super) fn tokens(text: &str) -> Vec<Token> {
    let mut tokens = Vec::new();
    let mut line = 1;
    let mut word: Option<Token> = None;
    let (mut comment, mut quoted, mut escaped) = (false, false, false);
    for (at, c) in text.char_indices() {
        let end = at + c.len_utf8();
        if quoted {
            let Some(token) = &mut word else { break };
            if c == '"' && !escaped {
                token.span.end = end;
                quoted = false;
                tokens.extend(word.take());
                continue;
            }
            if c == '\n' {
                line += 1;
            }
            if escaped && c != '"' {
                token.text.push('\\');
            }
            escaped = c == '\\' && !escaped;
            if !escaped {
                token.text.push(c);
            }
            continue;
        }
        if c.is_whitespace() {
            if c == '\n' {
                line += 1;
                comment = false;
            }
            // A carriage return does not end a word, and is not a part of it.
            if c != '\r' && !comment {
                tokens.extend(word.take());
            }
            continue;
        }
        comment |= c == '#';
        if comment {
            continue;
        }
        match &mut word {
            Some(token) => {
                token.text.push(c);
                token.span.end = end;
            }
            None => {
                quoted = c == '"';
                let text = if quoted { String::new() } else { c.into() };
                word = Some(Token {
                    text,
                    line,
                    span: at..end,
                });
            }
        }
    }
    // An unclosed quote ends with the file.
    tokens.extend(word.map(|mut token| {
        if quoted {
            token.span.end = text.len();
        }
        token
    }));
    tokens.retain(|token| !token.text.is_empty() || text.get(token.span.clone()) == Some("\"\""));
    tokens
}

#[cfg(test)]
mod tests {
    use super::*;

    fn texts(text: &str) -> Vec<String> {
        tokens(text).into_iter().map(|token| token.text).collect()
    }

    #[test]
    fn words_quotes_and_comments_are_told_apart() {
        let text = "a.b:53 { # x\n  log \"two words\" \"q\\\"uote \\n\"\n  #y\n  z#z\n}\n";
        assert_eq!(
            texts(text),
            ["a.b:53", "{", "log", "two words", "q\"uote \\n", "z", "}"]
        );
        let lines: Vec<usize> = tokens(text).iter().map(|token| token.line).collect();
        assert_eq!(lines, [1, 1, 2, 2, 2, 4, 5]);
    }

    #[test]
    fn each_token_stands_where_it_says() {
        let text = "α \"b c\" d";
        let spans = tokens(text).into_iter().map(|token| &text[token.span]);
        assert_eq!(spans.collect::<Vec<_>>(), ["α", "\"b c\"", "d"]);
    }

    #[test]
    fn an_open_quote_ends_with_the_file() {
        assert_eq!(texts("a \"b\nc"), ["a", "b\nc"]);
    }
}
